#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "hp/status.h"
#include "scheduler/pipeline/clock_state.h"
#include "scheduler/pipeline/flights.h"
#include "scheduler/pipeline/task.h"
#include "scheduler/pipeline/time_use.h"
#include "scheduler/plan/pipeline_plan.h"
#include "scheduler/plan/schedule.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hp {

/// Decides what a node computes next. It binds the next id to a free solver, grants peers the places where their
/// tensors land, hands out tasks as soon as all that they need is there, writes finished tensors to the places that
/// peers granted, and frees the solver when its tasks are done and its transfers have ended. One clock after the other:
/// tests, training micro-batches, updates; with staleness s, up to s + 1 of them at once, which end in their order.
///
/// It has no thread of its own. The executor takes a task, carries it out and reports it:
///   while (const std::optional<Task> task = pipeline->NextTask()) {
///     ...                       // compute; tensors lie where PipelineHost::Place says
///     pipeline->Done(*task);    // any thread; posts what the task made final
///   }
/// On a device that queues its work it reports each task twice, so that the device need not wait for the host between
/// two tasks of which one needs only the other:
///   while (const std::optional<Task> task = pipeline->NextTask()) {
///     ...                           // put the task into the device's queue
///     pipeline->Enqueued(*task);    // what may follow it there can be handed out
///   }                               // meanwhile another thread waits for the tasks one by one: pipeline->Done(task)
/// Meanwhile the transport's progress thread, the exchanges and the readers report events, each of which may make tasks
/// ready. All methods may be called from any thread, but not from a PipelineHost method. Only NextTask blocks.
///
/// Owned by the node. A lost peer shows here only as work that never becomes ready: the failure detector ends the job,
/// and the node calls Abort. The guarantees on order and on memory are in scheduler/README.md.
class Pipeline {
 public:
  /// @param plan,schedule are copied. @param host,transport must outlive the pipeline.
  /// @param clock measures time_use; must outlive it too.
  Pipeline(const PipelinePlan& plan, const Schedule& schedule, PipelineHost* host, Transport* transport,
           const Clock* clock = Clock::Real());

  /// Opens the first clock (PipelinePlan::start_clock). Call once, when all peers are connected: grants are posted from
  /// then on. Before it no task is ready. Grants and verdicts may be reported earlier.
  void Start() HP_EXCLUDES(mutex_);

  // --- For the executor
  /// Blocks until a task is ready and returns the first one in the order of work (GoesBefore). One thread. The next
  /// task may be taken before this one is done, but what they compute must be carried out in the order of the calls:
  /// tasks that add to the same gradient are handed out in the order in which float sums must be made.
  /// @return nothing, for good: the job is done, or Abort was called.
  std::optional<Task> NextTask() HP_EXCLUDES(mutex_);
  /// As NextTask, but returns nothing instead of blocking. For tests that interleave nodes by hand.
  std::optional<Task> TryNextTask() HP_EXCLUDES(mutex_);
  /// Whether urgent tasks may be carried out in between the layers of `task` (TryUrgentTask).
  bool MayInterrupt(const Task& task) const {
    return !task.urgent && (task.kind == Task::kForward || task.kind == Task::kBackward) && has_urgent_;
  }
  /// As NextTask, for urgent tasks alone; nothing: none is ready. May be called, and the task be carried out, while
  /// the task that NextTask returned last is being carried out, if that may be interrupted: the two add to no gradient
  /// that is the same.
  std::optional<Task> TryUrgentTask() HP_EXCLUDES(mutex_);
  /// `task`, as it was handed out, is in the device's queue, and whatever is enqueued from now on is computed behind
  /// it. Optional, at most once for each task, before Done of it; in the order in which the tasks were handed out.
  /// Tasks that need nothing but what this node has computed become ready: passes of the same micro-batch, weight
  /// gradients, norms, updates, and, where no tensor of the node crosses to another, the id that takes the solver next
  /// and the next clock, unless its boundary needs all done (PipelineHost::BoundaryNeedsDone). Whatever leaves the node
  /// or is read by the host waits for Done. With staleness, or with parameter servers, nothing follows before Done.
  void Enqueued(const Task& task) HP_EXCLUDES(mutex_);
  /// `task`, as it was handed out, is done: its results are in memory, where the transport may read them. Once for each
  /// task; of those that were Enqueued in that order. Posts the tensors that it made final, and grants of ids that are
  /// bound now.
  void Done(const Task& task) HP_EXCLUDES(mutex_);
  /// Whether tensors of some micro-batch cross between this node and others. Any thread, takes no lock.
  bool has_ports() const { return has_ports_; }

  // --- Events of the transport (TransportHandler), whose tag is of a micro-batch
  /// A peer granted the place of a tensor that this node sends. May come before the id is bound here; it is kept.
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) HP_EXCLUDES(mutex_);
  /// A place that this node granted is filled, or (not ok) will not be, because the peer is lost.
  void OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) HP_EXCLUDES(mutex_);
  /// A write of this node ended; its source may be reused.
  void OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) HP_EXCLUDES(mutex_);

  // --- Events of the node
  /// The exchange of `stage` is done with the gradient of `group` (index into PipelinePlan::groups) for `clock`: it is
  /// summed over the replicas (kSum); it has been sent to the parameter servers, so that it may be overwritten (kPush);
  /// or those of all replicas are here (kServe). Once a clock for each group that is exchanged, in any order. The clock
  /// must be under way (CHECK); on a server it may be one that opens later. May come before Done of the backward
  /// task that gave the gradient to the exchange.
  void OnExchanged(int64_t clock, int stage, int group) HP_EXCLUDES(mutex_);
  /// The parameter servers' values of `group` after the update of `clock` are here. Once a clock for each group with
  /// kPush, behind its kPull task, maybe before Done of it.
  void OnValues(int64_t clock, int stage, int group) HP_EXCLUDES(mutex_);
  /// Images or labels arrived: asks InputsReady again for every flight that waits.
  void OnInputs() HP_EXCLUDES(mutex_);
  /// The verdict of clock t = `clock` has arrived and does not end the job by an error. Clock t + staleness + 2 may
  /// open, or t + 1 if that is the last one; with wait_for_verdict the updates of t follow. In the order of clocks: a
  /// stop that came behind the next verdict would find its boundary passed.
  /// @param stop_at the job ends in front of this clock: no id of it or a later one is bound, and no further update is
  /// made. Nothing: it goes on. Of several stops the earliest counts.
  void OnVerdict(int64_t clock, std::optional<int64_t> stop_at) HP_EXCLUDES(mutex_);
  /// Asks BoundaryReady again if a clock waits for it.
  void OnBoundaryReady() HP_EXCLUDES(mutex_);
  /// Ends the work: NextTask returns nothing from now on. Tasks that are handed out may still be reported by Done, and
  /// events too.
  void Abort() HP_EXCLUDES(mutex_);

  /// Whether NextTask has nothing to return for good: all work is done, or Abort was called.
  bool finished() const HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return finished_;
  }
  /// What the executor's time went into so far. What it waits for is looked at again at each event.
  TimeUse time_use() const HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return times_.Until(clock_->NowNs());
  }
  /// What the node has on hand at this moment.
  struct Load {
    int solvers_free = 0, solvers_bound = 0;
    int tasks_ready = 0;      ///< to be computed next
    int tensors_waiting = 0;  ///< computed, and not with their readers yet
  };
  Load load() const HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    const int solvers_free = static_cast<int>(free_solvers_.size() + released_solvers_.size());
    return {solvers_free, plan_.pool_size - solvers_free, static_cast<int>(ready_.size()), flights_.unsent()};
  }
  /// Clocks of this run that are done, updates and all.
  int64_t clocks_done() const HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return first_clock() - plan_.start_clock;
  }
  /// What the ports have moved in training so far, by peer (Flights::payload).
  std::map<Rank, Payload> payload() const HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return flights_.payload();
  }
  /// One line on the clock, its verdicts, and what each bound id waits for: for the log when nothing moves.
  std::string Describe() const HP_EXCLUDES(mutex_);

 private:
  using EarlyGroups = std::vector<std::pair<int, int>>;  // stage, group

  std::optional<Task> TakeTask() HP_REQUIRES(mutex_);
  /// The task has passed: hands out what needs no more than that.
  void Pass(const Task& task) HP_REQUIRES(mutex_);
  /// It has passed and is done.
  void Finish(const Task& task) HP_REQUIRES(mutex_);
  void Push(const Task& task) HP_REQUIRES(mutex_);
  void Push(const std::vector<Task>& tasks) HP_REQUIRES(mutex_) {
    for (const Task& task : tasks) Push(task);
  }

  /// The first clock that is not done. And the last one of the job.
  int64_t first_clock() const HP_REQUIRES(mutex_) { return clocks_.empty() ? next_clock_ : clocks_.begin()->first; }
  int64_t last_clock() const HP_REQUIRES(mutex_);
  void OpenClocks() HP_REQUIRES(mutex_);
  bool OpenClock() HP_REQUIRES(mutex_);
  void ReleaseGradients(const std::vector<int>& groups) HP_REQUIRES(mutex_);
  void TakeEarly() HP_REQUIRES(mutex_);
  void FinishBoundary(int64_t clock) HP_REQUIRES(mutex_);
  void BindMore() HP_REQUIRES(mutex_);
  void PassForward(const Task& task) HP_REQUIRES(mutex_);
  void PassBackward(const Task& task) HP_REQUIRES(mutex_);
  void PassWeightGradient(const Task& task) HP_REQUIRES(mutex_);
  void PassClock(int64_t clock) HP_REQUIRES(mutex_);
  void OnComputed(MsgId id) HP_REQUIRES(mutex_);
  void Advance(Flight* flight) HP_REQUIRES(mutex_);
  int TakeSolver() HP_REQUIRES(mutex_);
  void ReleaseIfPassed(MsgId id) HP_REQUIRES(mutex_);
  void FreeIfDone(MsgId id) HP_REQUIRES(mutex_);
  void OnFreed(MsgId id) HP_REQUIRES(mutex_);
  void Progress(int64_t clock) HP_REQUIRES(mutex_);
  bool AwaitsVerdict() const HP_REQUIRES(mutex_);
  Wait Lacking() const HP_REQUIRES(mutex_);
  void KeepTime() HP_REQUIRES(mutex_);

  const PipelinePlan plan_;
  const class Schedule schedule_;
  const bool has_urgent_;  // segments
  const bool has_ports_;
  const bool follows_enqueued_;  // tasks follow others that are enqueued and not done
  PipelineHost* const host_;
  const Clock* const clock_;

  // Held while host and transport are called. Lock order: pipeline, then the host's locks and the transport's.
  mutable Mutex mutex_;
  CondVar changed_;
  ReadyTasks ready_ HP_GUARDED_BY(mutex_);
  Flights flights_ HP_GUARDED_BY(mutex_);
  /// Solvers that may be bound: nobody uses them; or tasks that are enqueued do, in the order of their release.
  std::set<int> free_solvers_ HP_GUARDED_BY(mutex_);
  std::vector<int> released_solvers_ HP_GUARDED_BY(mutex_);
  std::set<Task, TaskOrder> enqueued_ HP_GUARDED_BY(mutex_);  // that have passed and are not done

  bool started_ HP_GUARDED_BY(mutex_) = false, finished_ HP_GUARDED_BY(mutex_) = false;
  int64_t next_clock_ HP_GUARDED_BY(mutex_);    // that opens next
  int64_t next_to_pass_ HP_GUARDED_BY(mutex_);  // the first clock that has not passed: its version is there
  int64_t own_version_ HP_GUARDED_BY(mutex_);   // the latest clock that computes with its own version
  /// Under way, by clock: staleness + 1 at most, and one that has passed and is not done.
  std::map<int64_t, ClockState> clocks_ HP_GUARDED_BY(mutex_);
  int64_t verdict_ HP_GUARDED_BY(mutex_);  // latest clock with a verdict; start_clock - 1: none yet
  std::optional<int64_t> stop_at_ HP_GUARDED_BY(mutex_);
  /// On a server, by clock: groups whose gradients came before the clock was open, or before their sums of the clock
  /// before were used.
  std::map<int64_t, EarlyGroups> early_ HP_GUARDED_BY(mutex_);
  TimeKeeper times_ HP_GUARDED_BY(mutex_);
  int under_way_ HP_GUARDED_BY(mutex_) = 0;  // tasks that are handed out and not done
  bool idle_ HP_GUARDED_BY(mutex_) = false;  // the executor asked for a task, and none was ready
};

}  // namespace hp
