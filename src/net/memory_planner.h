#pragma once

#include "net/memory_plan.h"
#include "net/node_net.h"

namespace hp {

/// Gives the buffers of a NodeNet their places: in a solver's arena, where buffers that are not in use at the same time
/// share memory, in its memory for peers, or as rows of a matrix of the whole update. The last step of NodeNetBuilder.
///
/// Time is counted in the steps of one micro-batch: all steps forward, then backward. A net of one segment runs them in
/// exactly that order. With several segments their order depends on what arrives when, so each segment has a period of
/// its own for each direction, and a buffer that is used in more than one of them is always in use. So are statistics,
/// and what a weight-gradient task reads later. Tensors that peers read or write share memory with none.
class MemoryPlanner {
 public:
  /// @param net complete but for offsets; must outlive the planner.
  explicit MemoryPlanner(NodeNet* net);
  /// Sets the offsets of the net's buffers and saved bytes, and the sizes of its memory. Once.
  void Plan();

 private:
  /// A step in one direction: `at` counts within the period.
  struct Moment {
    int period = 0, at = 0;
  };

  Moment Forward(int step) const;
  Moment Backward(int step) const;
  void Use(int buffer, Moment moment);
  void UseValue(int tensor, Moment moment) { Use(net_->tensors_[tensor].value, moment); }
  void UseAlways(int buffer) { lives_[buffer].period = Lifetime::kAlways; }
  void AddUses(int step);
  void AssignPorts();
  void Assign();

  NodeNet* const net_;
  std::vector<Lifetime> lives_;  // of buffers, then of each step's saved bytes
};

}  // namespace hp
