#include "rendezvous/job_rendezvous.h"

#include "base/clock.h"

#include <glog/logging.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace hp {
namespace {

constexpr int64_t kAskMs = 250, kWaitReportNs = 15 * kNsPerSecond;

bool MayPass(const Status& status) {
  return status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kDeadlineExceeded;
}

}  // namespace

StatusOr<RendezvousAnswer> AwaitTable(JobRendezvous* rendezvous, const NodeRecord& record, int64_t wait_ms) {
  const Clock* const clock = Clock::Real();
  const int64_t deadline_ns = clock->NowNs() + wait_ms * kNsPerMs;
  int64_t report_ns = clock->NowNs() + kWaitReportNs;
  while (true) {
    const StatusOr<RendezvousAnswer> answer = rendezvous->Tell(record);
    if (answer.ok() ? answer->kind() != RendezvousAnswer::WAIT : !MayPass(answer.status())) return answer;
    const std::string cause = answer.ok() ? "waits " + answer->text() : answer.status().message();
    const int64_t now_ns = clock->NowNs(), left_ms = (deadline_ns - now_ns) / kNsPerMs;
    if (left_ms <= 0) {
      return DeadlineExceeded("%s handed out no table within %g s: %s", rendezvous->name().c_str(),
                              static_cast<double>(wait_ms) / 1e3, cause.c_str());
    }
    if (now_ns >= report_ns) {
      report_ns = now_ns + kWaitReportNs;
      LOG(INFO) << rendezvous->name() << ": " << cause << " (" << left_ms / 1000 << " s more)";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(kAskMs, left_ms)));
  }
}

}  // namespace hp
