#pragma once

#include "base/shape.h"
#include "layers/labels.h"
#include "net/plan/graph.h"

#include <vector>

namespace hp {

/// What each layer of a phase that reads labels accepts, in the order of the layers; empty: nothing reads them.
/// @param shapes of the graph's tensors (NetGraph::Shapes), of any number of rows.
std::vector<LabelRule> LabelRulesOf(const NetGraph& graph, const std::vector<Shape>& shapes);

}  // namespace hp
