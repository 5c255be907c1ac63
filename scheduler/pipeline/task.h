#pragma once

#include "scheduler/plan/msg_id.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace hp {

/// One piece of work for the executor, handed out by the Pipeline when all that it needs is there, or on a device that
/// queues its work will be there when the task's turn comes (Pipeline::Enqueued): a task never waits.
/// The kinds are declared in the order of work: what a peer waits for comes first (input gradients before forward
/// passes), work that only this node needs comes last.
struct Task {
  enum Kind {
    kBoundary,        ///< start of a clock: what all nodes do between the same two updates (snapshots, pulls, a stop)
    kPull,            ///< lets a group's new values come in from parameter servers (GroupExchange::kPush)
    kBackward,        ///< backward pass of a segment: input gradients, and parameter gradients of in_backward groups
    kForward,         ///< forward pass of a segment
    kWeightGradient,  ///< gradient of one group: of one micro-batch, or (id.bits == 0) deferred, of the whole update
    kNorm,            ///< squared norm of all gradients; the updates wait for the verdict on it
    kUpdate,          ///< update of `group` and `more_groups`, whose deferred gradients it computes if nothing else
                      ///< has; on a parameter server the new values then go to the replicas
    kFinishClock,     ///< the last task of a clock: all updates are done and all solvers are free
  } kind = kForward;
  MsgId id = {};      ///< the micro-batch; bits == 0: the task is not of one micro-batch
  int solver = -1;    ///< whose memory holds the micro-batch, from 0; -1: none
  int segment = 0;    ///< kForward, kBackward; of the group's layer with kPull, kWeightGradient, kUpdate
  int group = 0;      ///< kPull, kWeightGradient, kUpdate: index into PipelinePlan::groups
  int64_t clock = 0;  ///< the iteration; set in every task
  /// How many updates the parameters have seen that the task reads: kBoundary, and tasks of a micro-batch. An update of
  /// clock t makes version t + 1 of version t.
  int64_t version = 0;
  bool urgent = false;                ///< kForward, kBackward: goes in between the layers of others (PhasePlan::urgent)
  std::vector<int> more_groups = {};  ///< kUpdate: groups to update together with `group`; see updates_together
};
/// The order of work among tasks that are ready: boundaries, then what is urgent, then the earlier clock, then by kind,
/// then the smaller id, then the later segment, then the smaller group.
bool GoesBefore(const Task& a, const Task& b);
/// The same for sets of tasks, of which no two that are under way at once are equal.
struct TaskOrder {
  bool operator()(const Task& a, const Task& b) const { return GoesBefore(a, b); }
};

/// The tasks that can be computed at once, sorted by GoesBefore. Not thread-safe: the pipeline's lock guards it.
class ReadyTasks {
 public:
  void Push(const Task& task) { tasks_.insert(task); }
  bool empty() const { return tasks_.empty(); }
  size_t size() const { return tasks_.size(); }
  /// Whether the first task is urgent.
  bool urgent() const { return !tasks_.empty() && tasks_.begin()->urgent; }
  /// Removes the first task and returns it. Must not be empty.
  /// @param updates_together an update also takes along all other updates of its clock that are ready, as its
  /// more_groups.
  Task Take(bool updates_together);

 private:
  Task TakeFirst();

  std::multiset<Task, TaskOrder> tasks_;
};
/// Whether tasks of this kind are of a parameter group (Task::group).
bool IsOfGroup(Task::Kind kind);
/// In a word or two: "forward", "weight gradient".
const char* NameOf(Task::Kind kind);
/// One line for logs: the task's iteration, kind, micro-batch and groups.
std::string Describe(const Task& task);

}  // namespace hp
