#pragma once

#include "base/shape.h"
#include "hp/status.h"
#include "net/plan/graph.h"

#include <vector>

namespace hp {

/// Checks the values that layers of a training net bring along in the net's own file (blobs): all blobs of a layer or
/// none, of its shapes, with as many values.
/// @param shapes of all blobs of the graph, for any number of rows.
/// @return kInvalidArgument, naming the layer, what its file has and what was expected.
Status CheckOwnBlobs(const NetGraph& graph, const std::vector<Shape>& shapes);

}  // namespace hp
