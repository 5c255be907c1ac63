#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "hp/status.h"
#include "scheduler/pipeline/clock_state.h"
#include "scheduler/pipeline/flights.h"
#include "scheduler/pipeline/task.h"
#include "scheduler/plan/pipeline_plan.h"
#include "scheduler/plan/schedule.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hp {

/// The state machine of a node's pipelines: binds the next id of the node's list as soon as a solver and its parameter
/// version are there, grants its landing places, hands out what has its inputs in the order of work, writes what is
/// final to whoever granted a place, and frees the solver when its work, posts and grants have ended. One clock after
/// the other: tests, training micro-batches, updates. Has no thread: the executor asks for tasks, the transport's
/// progress thread and the exchanges report events. All methods from any thread.
/// Owned by the node; host and transport must outlive it. Errors of the transport are logged: whoever watches the
/// connections ends the job and calls Abort.
/// Source of the contract: scheduler/README.md.
class Pipeline {
 public:
  /// @param clock of what input_wait_ns counts.
  Pipeline(const PipelinePlan& plan, const Schedule& schedule, PipelineHost* host, Transport* transport,
           const Clock* clock = Clock::Real());

  /// All peers are connected: the first clock may begin.
  void Start() HP_EXCLUDES(mutex_);

  // --- The executor's side.
  /// Blocks until there is a task. @return nothing: the job is done or was stopped.
  std::optional<Task> NextTask() HP_EXCLUDES(mutex_);
  /// Never blocks. For tests that interleave by hand.
  std::optional<Task> TryNextTask() HP_EXCLUDES(mutex_);
  void Done(const Task& task) HP_EXCLUDES(mutex_);

  // --- Events.
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) HP_EXCLUDES(mutex_);
  void OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) HP_EXCLUDES(mutex_);
  void OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) HP_EXCLUDES(mutex_);
  /// The gradient of `unit` (index into PipelinePlan::units) for `clock`, which is under way, is the sum over all nodes
  /// of its stage. Once for each of the clock's units that are exchanged, in any order, and also before the backward
  /// task is done that gave the last of it away.
  void OnExchanged(int64_t clock, int stage, int unit) HP_EXCLUDES(mutex_);
  /// Records or labels arrived: what waited for InputsReady is looked at again.
  void OnInputs() HP_EXCLUDES(mutex_);
  /// The verdict of `clock` is go (or scale, or skip). `stop_at`: no id of that clock or a later one is bound.
  void OnVerdict(int64_t clock, std::optional<int64_t> stop_at) HP_EXCLUDES(mutex_);
  /// What waited for BoundaryReady is looked at again.
  void OnBoundaryReady() HP_EXCLUDES(mutex_);
  /// Ends NextTask for good.
  void Abort() HP_EXCLUDES(mutex_);

  bool finished() const HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return finished_;
  }
  /// How long the executor has been without a task while a micro-batch lacked nothing but its records or labels.
  int64_t input_wait_ns() const HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return input_wait_ns_;
  }
  /// One line on what is bound and what each waits for: for logs when something does not move.
  std::string Describe() const HP_EXCLUDES(mutex_);

 private:
  std::optional<Task> TakeTask() HP_REQUIRES(mutex_);
  void Push(const Task& task) HP_REQUIRES(mutex_);
  void Push(const std::vector<Task>& tasks) HP_REQUIRES(mutex_) {
    for (const Task& task : tasks) Push(task);
  }

  void OpenClock() HP_REQUIRES(mutex_);
  void FinishBoundary(int64_t clock) HP_REQUIRES(mutex_);
  void BindMore() HP_REQUIRES(mutex_);
  void FinishForward(const Task& task) HP_REQUIRES(mutex_);
  void FinishBackward(const Task& task) HP_REQUIRES(mutex_);
  void FinishWeightGradient(const Task& task) HP_REQUIRES(mutex_);
  void OnComputed(MsgId id) HP_REQUIRES(mutex_);
  void Advance(Flight* flight) HP_REQUIRES(mutex_);
  void FreeIfDone(MsgId id) HP_REQUIRES(mutex_);
  void Progress(int64_t clock) HP_REQUIRES(mutex_);

  const PipelinePlan plan_;
  const class Schedule schedule_;
  PipelineHost* const host_;
  const Clock* const clock_;

  mutable Mutex mutex_;  // held while the transport is posted to: lock order is pipeline, then transport
  CondVar changed_;
  ReadyTasks ready_ HP_GUARDED_BY(mutex_);
  Flights flights_ HP_GUARDED_BY(mutex_);
  std::set<int> free_solvers_ HP_GUARDED_BY(mutex_);

  bool started_ HP_GUARDED_BY(mutex_) = false, finished_ HP_GUARDED_BY(mutex_) = false;
  int64_t iteration_ HP_GUARDED_BY(mutex_);                     // the clock that is under way, or opens next
  std::map<int64_t, ClockState> clocks_ HP_GUARDED_BY(mutex_);  // under way, by clock: one
  int64_t verdict_ HP_GUARDED_BY(mutex_);                       // latest clock with a verdict
  std::optional<int64_t> stop_at_ HP_GUARDED_BY(mutex_);
  int64_t input_wait_ns_ HP_GUARDED_BY(mutex_) = 0;
  std::optional<int64_t> starved_since_ns_ HP_GUARDED_BY(mutex_);  // the executor asked, and inputs are what it lacks
};

}  // namespace hp
