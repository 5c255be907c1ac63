#pragma once

#include "base/mutex.h"
#include "hp/status.h"
#include "scheduler/control/verdict.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace hp {

/// Stops, snapshots, pulls and orders of clients, from the request on any node to the boundary at which all nodes carry
/// them out. A request takes three steps:
///   1. RequestStop or RequestSnapshot; the node's next report carries it (AddRequests).
///   2. On the first node AddReport merges the reports of clock t into a verdict, which its caller sends to all nodes.
///   3. Every node keeps the verdict (Add) until the boundary in front of clock t + delay() (Peek, Take).
/// So all nodes act between the same two updates. One on each node, owned by Node. Any thread; the two requests also
/// from a signal handler.
class BoundaryRequests {
 public:
  /// @param staleness of the table: so many clocks may be open beside the first one.
  explicit BoundaryRequests(int staleness) : delay_(DelayOf(staleness)) {}
  /// The requests in the verdict of clock t are carried out at the boundary in front of clock t + delay: no node opens
  /// that clock before it has the verdict of t.
  static constexpr int64_t DelayOf(int staleness) { return staleness + 2; }
  int64_t delay() const { return delay_; }

  /// Asks for the end of the job, in every report from now on. Async-signal-safe.
  void RequestStop() { stop_ = true; }
  /// Asks for a snapshot, in the next report only. Async-signal-safe.
  void RequestSnapshot() { snapshot_ = true; }
  /// Sets `stop` and `snapshot` of this node's report, which is to be sent. Once for each clock, in order.
  void AddRequests(IterationReport* report);

  /// On the first node alone, before the first report: lets AddReport merge reports. Parameters as VerdictKeeper's.
  /// @param max_iter the iteration at which the job ends.
  void Keep(int nodes, double clip_gradients, const std::optional<LossScaler>& scaler,
            int64_t max_iter = std::numeric_limits<int64_t>::max()) HP_EXCLUDES(mutex_);
  /// VerdictKeeper::SetOwnerFiles. After Keep, before the first report.
  void SetOwnerFiles(int64_t start) HP_EXCLUDES(mutex_);
  /// How an order ends: the iteration in front of which all nodes carry it out, or why they do not.
  using OrderSink = std::function<void(const StatusOr<int64_t>& at)>;
  /// On the first node alone: gives an order, which PeerRules::CheckOrder has passed, to the next verdict. A stop that
  /// was ordered before is not ordered again: its iteration is the answer. Of two rates in one verdict the later one
  /// counts. Any thread.
  /// @param done called once, in here or in an AddReport, under no lock of others; must not block nor call this.
  /// kFailedPrecondition: the job stops or ends before. Not called if no verdict follows any more.
  void Order(const JobOrder& order, OrderSink done) HP_EXCLUDES(mutex_);
  /// On the first node alone: in front of which iteration the job stops, once a verdict says so.
  std::optional<int64_t> stop_at() const HP_EXCLUDES(mutex_);
  /// On the first node alone (CHECK). If this was the last report that its clock lacked, calls `follow` with the
  /// verdict: once for each clock, one at a time and in their order, though reports come on several threads. So
  /// verdicts that `follow` sends arrive in order. It must not block, nor call this.
  void AddReport(Rank from, const IterationReport& report, const std::function<void(const Verdict&)>& follow)
      HP_EXCLUDES(follow_mutex_, mutex_);
  /// On the first node alone: how many clocks have a verdict, counted from iteration 0; 0 before the first verdict of
  /// this run. A verdict counts before `follow` has it, so ahead of everything that follows from it.
  int64_t clocks_judged() HP_EXCLUDES(mutex_);
  /// How many clocks this node has reported (AddRequests), counted as above. No verdict is on a later one.
  int64_t clocks_reported() const { return clocks_reported_; }
  /// The loss scaler's state after the latest verdict that was added, for a snapshot's manifest: at a boundary that of
  /// the clock in front of it, since updates of scaled losses wait for their verdict. @return nothing before the first
  /// verdict, and where losses are not scaled.
  std::optional<LossScalingState> loss_scaling() HP_EXCLUDES(mutex_);

  /// Keeps the requests of a verdict until their boundary; ignores a verdict without any. Once for each clock.
  void Add(const Verdict& verdict) HP_EXCLUDES(mutex_);
  /// The verdict whose requests are to be carried out at the boundary in front of `clock`; an empty one if there are
  /// none.
  Verdict Peek(int64_t clock) HP_EXCLUDES(mutex_);
  /// As Peek, and forgets the requests of this boundary and of earlier ones.
  Verdict Take(int64_t clock) HP_EXCLUDES(mutex_);

 private:
  using Answers = std::vector<std::pair<OrderSink, StatusOr<int64_t>>>;
  /// Why an order can't be carried out in front of iteration `at`.
  Status CheckOrder(const JobOrder& order, int64_t at) const HP_REQUIRES(mutex_);
  /// Puts the orders that wait into a verdict. @return their answers.
  Answers TakeOrders(Verdict* verdict) HP_REQUIRES(mutex_);

  const int64_t delay_;
  std::atomic<bool> stop_{false}, snapshot_{false};  // asked for on this node
  std::atomic<int64_t> clocks_reported_{0};
  Mutex follow_mutex_;  // of AddReport; held while a verdict is followed
  mutable Mutex mutex_;
  std::optional<VerdictKeeper> keeper_ HP_GUARDED_BY(mutex_);  // on the first node alone
  int64_t max_iter_ HP_GUARDED_BY(mutex_) = 0;
  int64_t clocks_judged_ HP_GUARDED_BY(mutex_) = 0;
  std::vector<std::pair<JobOrder, OrderSink>> orders_ HP_GUARDED_BY(mutex_);  // for the next verdict
  std::optional<int64_t> stop_at_ HP_GUARDED_BY(mutex_);
  std::optional<LossScalingState> loss_scaling_ HP_GUARDED_BY(mutex_);
  std::map<int64_t, Verdict> requests_ HP_GUARDED_BY(mutex_);  // by the clock behind the boundary
};

}  // namespace hp
