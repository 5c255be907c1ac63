#include "report/stop_budget.h"

#include "base/format.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {
namespace {

double Seconds(int64_t ns) { return static_cast<double>(ns) / kNsPerSecond; }

}  // namespace

void StopBudget::OnIteration() {
  MutexLock lock(&mutex_);
  const int64_t now_ns = clock_->NowNs();
  before_ns_ = latest_ns_;
  latest_ns_ = ended_ns_ == 0 ? 0 : now_ns - ended_ns_;
  ended_ns_ = now_ns;
  Look();
}

void StopBudget::OnSnapshot(int64_t took_ns) {
  MutexLock lock(&mutex_);
  snapshot_ns_ = took_ns;
  Look();
}

bool StopBudget::warned() const {
  MutexLock lock(&mutex_);
  return warned_;
}

// Both of the last two iterations have to be long: one with a test, or the first, tells little of the others.
void StopBudget::Look() {
  const int64_t two_ns = 2 * std::min(latest_ns_, before_ns_);
  if (warned_ || limit_ns_ == 0 || two_ns == 0 || two_ns + snapshot_ns_ <= limit_ns_) return;
  warned_ = true;
  LOG(WARNING) << Format(
      "node %s: two iterations take %.1f s and a snapshot %.1f s, longer than --stop_within_s=%.0f: a "
      "stop may end without a snapshot",
      node_.c_str(), Seconds(two_ns), Seconds(snapshot_ns_), Seconds(limit_ns_));
}

}  // namespace hp
