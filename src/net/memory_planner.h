#pragma once

#include "net/memory_plan.h"
#include "net/node_net.h"

namespace hp {

/// Gives the buffers of a NodeNet their places: in a solver's arena, where buffers whose lives do not overlap share
/// memory, or in the matrices of the whole update.
///
/// A life is counted in moments of a micro-batch: the steps forward, then backward. A net of one segment runs them in
/// that one order. Of several segments the order is found while they run, so there each segment has a period of its own
/// for each direction, and what is used in more than one of them lives always, as do the tensors that peers read and
/// write, statistics, and what a weight gradient that is computed later reads.
class MemoryPlanner {
 public:
  explicit MemoryPlanner(NodeNet* net);
  void Plan();

 private:
  struct Moment {
    int period = 0, at = 0;
  };

  Moment Forward(int step) const;
  Moment Backward(int step) const;
  void Use(int buffer, Moment moment);
  void UseValue(int tensor, Moment moment) { Use(net_->tensors_[tensor].value, moment); }
  void UseAlways(int buffer) { lives_[buffer].period = Lifetime::kAlways; }
  void AddUses(int step);
  void Assign();

  NodeNet* const net_;
  std::vector<Lifetime> lives_;  // of buffers, then of each step's saved bytes
};

}  // namespace hp
