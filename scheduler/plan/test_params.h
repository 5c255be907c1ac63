#pragma once

#include "hp/status.h"
#include "net/plan/graph.h"

#include <vector>

namespace hp {

/// Whether all parameters of one of a job's test nets are the training net's: nothing else gives them values.
/// @param train_shapes,test_shapes of the blobs of each graph (NetGraph::Shapes).
/// @return kInvalidArgument, naming the layer: the training net has none of its name, or one of another shape.
Status CheckTestParams(const NetGraph& train, const std::vector<Shape>& train_shapes, const NetGraph& test,
                       const std::vector<Shape>& test_shapes);

}  // namespace hp
