#pragma once

#include "scheduler/pipeline/task.h"
#include "scheduler/plan/pipeline_plan.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace hp {

/// The progress of one clock on one node: which ids are bound and computed, which gradients are final, which updates
/// are done. Where the device carries tasks out in the order in which they are enqueued, "computed", "added", "final"
/// and "updated" mean that the tasks which do that are enqueued (Pipeline::Enqueued). It decides which gradient, norm
/// and update tasks are ready; the order of forward and backward passes is decided by Flights. A state machine without
/// a lock: the pipeline owns one for each clock under way and calls it under its own lock. After each On... call it
/// asks for the tasks that became ready (TakeDue), then whether the clock is done (Finished).
///
/// Life: constructed with the boundary task -> Open -> ids taken, On... calls -> Finished -> Close -> destroyed when
/// the kFinishClock task is done.
class ClockState {
 public:
  /// Whether all tests, and all norms, of some clocks are done.
  struct Done {
    bool tests = true;  ///< their tests are computed
    bool norms = true;  ///< their norms are taken; without wait_for_verdict they have none
  };

  /// @param plan must outlive it.
  /// @param version of the parameters that its ids compute with.
  ClockState(const PipelinePlan* plan, int64_t clock, int64_t version)
      : plan_(plan), clock_(clock), version_(version) {}

  /// The boundary task is done: ids may be bound. Once. Before it TakeId and TakeDue return nothing.
  /// @param tests,trains the clock's ids on this node, each in the order of ids; a parameter server has none.
  /// @param training whether the clock updates anything; the job's last one does not.
  void Open(const std::vector<MsgId>& tests, const std::vector<MsgId>& trains, bool training);
  int64_t version() const { return version_; }
  /// Whether the clock updates.
  bool training() const { return training_; }

  // --- Ids
  /// The next id to bind, tests first; it counts as bound from then on. @return nothing: all ids are bound, or the
  /// clock is not open.
  std::optional<MsgId> TakeId();
  /// All forward and backward passes of `id` are computed; its weight-gradient tasks may not be. Once for each id.
  void OnComputed(MsgId id) { --(id.train() ? trains_left_ : tests_left_); }
  /// A solver of this clock may be bound again. Once for each id.
  void OnFreed() { --flights_left_; }

  // --- Gradients, by parameter group
  /// A micro-batch's gradient is added to the group's, or (deferred) its rows are kept. Once for each training id that
  /// runs the group's layer.
  void OnAdded(int group);
  /// The exchange of `stage` is done with the group's gradient (Pipeline::OnExchanged). Once for each exchanged group,
  /// before or after the last OnAdded.
  void OnExchanged(int stage, int group);
  /// The parameter servers' new values of the group are here. Once for each group with kPush, behind its kPull task.
  void OnValues(int stage, int group);
  /// The kWeightGradient task of a deferred group is done.
  void OnDeferredGradient(int group) { groups_[group].gradient = true; }

  // --- Updates
  /// The kNorm task is done, and not only enqueued: the verdict follows from what it computed.
  void OnNorm() { norm_done_ = true; }
  /// An update of this many groups is done.
  void OnUpdated(int groups) { updates_left_ -= groups; }
  /// The tasks that are ready and were not returned before: deferred gradients, the norm, updates, pulls.
  /// @param has_verdict whether the clock's own verdict has arrived; matters only with wait_for_verdict.
  /// @param before what all clocks before it have done.
  std::vector<Task> TakeDue(bool has_verdict, const Done& before);
  /// What it has done itself.
  Done done() const { return {tests_left_ == 0, norm_done_}; }
  /// Whether the clock is open and all of it is computed: solvers given back, groups updated, and with wait_for_verdict
  /// the norm taken and the verdict there.
  bool Finished(bool has_verdict) const;
  /// Whether all its micro-batches are computed here, and the exchanges are not done with all gradients and values.
  bool AwaitsExchange() const;
  /// The pipeline has acted on Finished, which is false from now on.
  void Close() { open_ = false; }
  bool open() const { return open_; }

  // For logs: how many ids were taken, of how many.
  size_t bound() const { return next_; }
  size_t ids() const { return ids_.size(); }

 private:
  struct Group {
    int missing = 0;         // micro-batches whose gradient is not added yet
    bool exchanged = false;  // OnExchanged was called
    bool values = false;     // OnValues was called
    bool gradient = false;   // the gradient is final, or the update computes it
    bool taken = false;      // its update, or its pull, is handed out
  };
  void FinishGradientIfDone(int group);
  void ScheduleUpdates(bool has_verdict, const Done& before);
  void FinishIfUpdated(int group);
  bool AllGradients() const;
  GroupExchange ExchangeOf(size_t group) const { return plan_->groups[group].exchange; }
  Task TaskOf(Task::Kind kind, int group) const;

  const PipelinePlan* plan_;
  int64_t clock_, version_;
  bool open_ = false;      // its ids may be bound
  bool training_ = false;  // it updates
  std::vector<MsgId> ids_;
  size_t next_ = 0;                       // first unbound one
  int tests_left_ = 0, trains_left_ = 0;  // ids that are not computed
  int flights_left_ = 0;                  // ids whose solver is not free again
  std::vector<Group> groups_;
  int updates_left_ = 0;  // groups that are not updated
  bool norm_pushed_ = false, norm_done_ = false;
  std::vector<Task> due_;
};

}  // namespace hp
