#pragma once

#include "scheduler/pipeline/task.h"
#include "scheduler/plan/pipeline_plan.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace hp {

/// What belongs to one clock of a node: its ids, and how far its gradients and updates are. A state machine without
/// locks: the pipeline owns one for each clock under way, calls it under its own lock, and asks for what became due
/// (TakeDue) after each call that says that something is done.
class ClockState {
 public:
  /// A clock whose boundary task is handed out; nothing is bound before Open. `plan` must outlive it.
  ClockState(const PipelinePlan* plan, int64_t clock) : plan_(plan), clock_(clock) {}

  /// The boundary is done: the clock's ids, each list in its order. Without training ids it is the last clock of all.
  void Open(const std::vector<MsgId>& tests, const std::vector<MsgId>& trains);
  bool training() const { return training_; }

  // --- Ids
  /// The first id that is not bound yet. @return nothing: all are, or the clock is not open.
  std::optional<MsgId> TakeId();
  /// What there is to compute of an id, but weight gradients, is computed.
  void OnComputed(MsgId id) { --(id.train() ? trains_left_ : tests_left_); }
  /// The solver of an id is free again.
  void OnFreed() { --flights_left_; }

  // --- Gradients, by unit
  /// A micro-batch's is added.
  void OnAdded(int unit);
  /// It is summed with those of other nodes; before or after the last OnAdded.
  void OnExchanged(int stage, int unit);
  /// A deferred one is computed for the whole update.
  void OnDeferredGradient(int unit) { units_[unit].gradient = true; }

  // --- Updates
  void OnNorm() { norm_done_ = true; }
  void OnUpdated(int units) { updates_left_ -= units; }
  /// The deferred gradients, the norm and the updates that may begin now, each once.
  /// @param has_verdict the clock's own verdict is there.
  std::vector<Task> TakeDue(bool has_verdict);
  /// Whether all of it is done: ids, updates, and where updates wait for the verdict that too.
  bool Finished(bool has_verdict) const;
  /// Its end has been decided: it is not open any more.
  void Close() { open_ = false; }
  bool open() const { return open_; }

  size_t bound() const { return next_; }
  size_t ids() const { return ids_.size(); }

 private:
  struct Unit {
    int missing = 0;         // micro-batches whose gradient is not added yet
    bool exchanged = false;  // ... and other nodes' parts are in it
    bool gradient = false;   // final, or computed with the update
    bool pushed = false;     // its update is handed out
  };
  void FinishGradientIfDone(int unit);
  void ScheduleUpdates(bool has_verdict);
  bool AllGradients() const;
  Task TaskOf(Task::Kind kind, int unit) const;

  const PipelinePlan* plan_;
  int64_t clock_;
  bool open_ = false;      // its ids may be bound
  bool training_ = false;  // it has training ids
  std::vector<MsgId> ids_;
  size_t next_ = 0;                       // first unbound one
  int tests_left_ = 0, trains_left_ = 0;  // ids that are not computed
  int flights_left_ = 0;                  // ids whose solver is not free again
  std::vector<Unit> units_;
  int updates_left_ = 0;  // units that are not updated
  bool norm_pushed_ = false, norm_done_ = false;
  std::vector<Task> due_;
};

}  // namespace hp
