#include "report/job_gauge.h"

#include "base/format.h"
#include "proto/wire.pb.h"

#include "glog/logging.h"

#include <algorithm>
#include <string>
#include <utility>

namespace hp {

/// Of an iteration.
struct JobGauge::Limit {
  double ns = 0;
  std::string by;  // what takes so long
};

JobGauge::JobGauge(const RoutingTable& table, const Clock* clock, int64_t display, int64_t start_clock)
    : table_(table),
      clock_(clock),
      display_(display),
      start_{clock->NowNs(), start_clock, std::vector<Use>(table.size())},
      shown_(start_),
      last_(start_) {}

void JobGauge::Add(Rank from, const IterationReport& report) {
  MutexLock lock(&mutex_);
  std::map<Rank, Use>& uses = open_[report.clock()];
  uses[from] = {report.computing_ns(), report.link_sent_bytes(), report.link_received_bytes()};
  if (static_cast<int>(uses.size()) < table_.size()) return;
  last_ = {clock_->NowNs(), report.clock() + 1, {}};
  for (const auto& [rank, use] : uses) last_.nodes.push_back(use);
  open_.erase(report.clock());
  if (display_ == 0 || last_.clocks % display_ != 0) return;
  Print(shown_, last_);
  shown_ = last_;
}

void JobGauge::Finish() const {
  MutexLock lock(&mutex_);
  if (last_.clocks > start_.clocks) Print(start_, last_);
}

JobGauge::Limit JobGauge::LimitOf(const Mark& from, const Mark& to) const {
  struct Host {
    double gbit_per_s = 0, sent = 0, received = 0;
  };
  const auto clocks = static_cast<double>(to.clocks - from.clocks);
  Limit limit;
  std::map<std::string, Host> hosts;
  for (const NodeInfo& node : table_.nodes()) {
    const Use &before = from.nodes[node.rank], &after = to.nodes[node.rank];
    const double computing_ns = static_cast<double>(after.computing_ns - before.computing_ns) / clocks;
    if (computing_ns > limit.ns) limit = {computing_ns, "node " + node.name + " computes"};
    Host& host = hosts[node.host];
    host.gbit_per_s = std::max(host.gbit_per_s, node.link_gbit_per_s);
    host.sent += static_cast<double>(after.sent - before.sent) / clocks;
    host.received += static_cast<double>(after.received - before.received) / clocks;
  }
  for (const auto& [name, host] : hosts) {
    const double bytes = std::max(host.sent, host.received);
    const double ns = host.gbit_per_s > 0 ? bytes * 8 / host.gbit_per_s : 0;
    if (ns <= limit.ns) continue;
    limit = {ns, Format("host %s %s %.1f MB over %g Gbit/s", name.c_str(),
                        host.sent >= host.received ? "sends" : "receives", bytes / 1e6, host.gbit_per_s)};
  }
  return limit;
}

void JobGauge::Print(const Mark& from, const Mark& to) const {
  const double took_ns = static_cast<double>(to.now_ns - from.now_ns) / static_cast<double>(to.clocks - from.clocks);
  const Limit limit = LimitOf(from, to);
  if (took_ns <= 0 || limit.by.empty()) return;
  LOG(INFO) << Format("gauge: iterations %lld to %lld took %.1f ms each, limit %.1f ms (%s): %.0f%% reached",
                      static_cast<long long>(from.clocks), static_cast<long long>(to.clocks - 1), took_ns / 1e6,
                      limit.ns / 1e6, limit.by.c_str(), 100 * limit.ns / took_ns);
}

}  // namespace hp
