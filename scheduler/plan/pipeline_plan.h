#pragma once

#include "net/plan/port_plan.h"
#include "scheduler/plan/msg_id.h"

#include <cstdint>
#include <vector>

namespace hp {

/// The part of a phase that one node runs, as its pipeline sees it.
struct PhasePlan {
  int segments = 1;
  std::vector<bool> backward;   ///< by segment: whether it has a backward half
  std::vector<PortPlan> ports;  ///< the host knows them by their index here
};

/// Parameters that are updated together: those of one layer.
struct UnitPlan {
  int stage = 0;  ///< whose layer it is
  int segment = 0;
  bool deferred = false;     ///< one gradient over all rows of the update
  bool in_backward = false;  ///< computed by the backward task itself (data-parallel stages)
  /// Other nodes have parts of its gradient: it is final when the exchange of its stage has summed them (OnExchanged).
  bool exchanged = false;
  /// Its squares count in this node's part of the norm: replicas have the same sums, and the first one counts them.
  bool counts = true;
  int layer = 0;  ///< index into the training graph's layers
  /// Whether each micro-batch's gradient is a task of its own.
  bool at_once() const { return !deferred && !in_backward; }
};

/// What one node does, from the table and the net.
struct PipelinePlan {
  PhasePlan train, test;
  std::vector<UnitPlan> units;
  std::vector<int> replicas = {0};  ///< whose ids the node handles, ascending
  int pool_size = 1;
  bool ordered_backward = false;  ///< backward tasks in the order of ids, because they add up weight gradients
  bool wait_for_verdict = false;  ///< updates wait for the verdict of their own clock (clip_gradients, loss scaling)
  /// Units that are ready for their update share a task. Where a task's host part costs more than a unit's update: on a
  /// GPU. Updates of units do not depend on each other, so it changes no bit.
  bool updates_together = false;
  int64_t start_clock = 0;

  const PhasePlan& phase(MsgId id) const { return id.train() ? train : test; }
};

}  // namespace hp
