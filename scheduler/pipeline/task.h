#pragma once

#include "scheduler/plan/msg_id.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace hp {

/// Something for the executor to compute. Order of work: by kind, then the smaller id, then the later segment.
struct Task {
  enum Kind {
    kBoundary,        ///< between two updates: what concerns all nodes at once
    kBackward,        ///< a segment's input gradients (a conv node's whole backward pass)
    kForward,         ///< a segment
    kWeightGradient,  ///< of one unit: for one micro-batch, or (id.bits == 0) deferred, for the whole update
    kNorm,            ///< all gradients are there, and the update must wait for the verdict on them
    kUpdate,          ///< of one unit or a few, deferred gradients included
    kFinishClock,     ///< all updates are done
  } kind = kForward;
  MsgId id = {};
  int solver = -1;
  int segment = 0;
  int unit = 0;
  int64_t clock = 0;
  std::vector<int> more_units = {};  ///< kUpdate: which are updated with `unit` (PipelinePlan::updates_together)
};
/// Whether `a` goes before `b`.
bool GoesBefore(const Task& a, const Task& b);
/// Tasks whose turn it is as soon as the executor asks, in the order of work. No lock: its owner has one.
class ReadyTasks {
 public:
  void Push(const Task& task) { tasks_.insert(task); }
  bool empty() const { return tasks_.empty(); }
  /// The first one; there is one. @param updates_together an update takes all others that are ready along.
  Task Take(bool updates_together);

 private:
  struct Order {
    bool operator()(const Task& a, const Task& b) const { return GoesBefore(a, b); }
  };
  Task TakeFirst();

  std::multiset<Task, Order> tasks_;
};
/// For logs: what the task is, of which micro-batch.
std::string Describe(const Task& task);

}  // namespace hp
