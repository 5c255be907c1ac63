#pragma once

#include "net/plan/node_plan.h"
#include "scheduler/planner/layer_time.h"

#include <cstdint>
#include <vector>

namespace hp {

/// Seconds that the tasks of one node take (Task of scheduler/pipeline), by the times of its layers. Immutable; any
/// thread.
class NodeTimes {
 public:
  /// @param plan of the TRAIN phase; must outlive it. @param times of the layers of plan.graph(); likewise.
  NodeTimes(const NodePlan& plan, const LayerTimes& times);

  /// A layer's part of a pass.
  struct LayerPass {
    int layer = 0;       ///< index into plan.layers()
    double seconds = 0;  ///< that it takes
  };
  /// The forward pass of a segment, for a micro-batch of `rows`, layer by layer.
  std::vector<LayerPass> ForwardPasses(int segment, double rows) const;
  /// Its backward pass, last layer first: the gradients of inputs, and of parameters where they belong to it
  /// (LayerPlan::in_backward).
  std::vector<LayerPass> BackwardPasses(int segment, double rows) const;
  /// All of them together.
  double Forward(int segment, double rows) const { return SumOf(ForwardPasses(segment, rows)); }
  double Backward(int segment, double rows) const { return SumOf(BackwardPasses(segment, rows)); }
  /// The weight gradient of one micro-batch; 0 where it is deferred or in the backward pass.
  /// @param layer one of plan.learning_layers().
  double WeightGradient(int layer, double rows) const;
  /// The update of a layer's parameters, and before it its deferred weight gradient over all rows of the update.
  double Update(int layer) const;
  /// What the node has of a layer: 1, or a shard's part of the parameters, or of the channels where there are none.
  /// @param layer index into plan.layers().
  double share(int layer) const { return shares_[layer]; }

 private:
  static double SumOf(const std::vector<LayerPass>& passes);

  const NodePlan* plan_;
  const LayerTimes* times_;
  std::vector<double> shares_;  // by index into plan.layers()
};

}  // namespace hp
