#pragma once

#include "base/sample_shape.h"
#include "hp/status.h"
#include "net/plan/graph.h"
#include "net/plan/placement.h"

#include <memory>

namespace hp {

/// What the graph of one phase of a net must look like for its layout: layers by inputs in two, scatters where stages
/// want them, and in two what computes on classes that the layout puts on shards in slices. A function of its arguments
/// alone, so all nodes agree on it. Any thread.
/// @param layout must give every layer of the net a stage.
/// @return the errors of NetGraph::Create and Placement::Create.
StatusOr<GraphCuts> FindCuts(const std::shared_ptr<const caffe::NetParameter>& net, Phase phase,
                             const LayerTypes& types, const SampleShape& sample, const StageLayout& layout);

}  // namespace hp
