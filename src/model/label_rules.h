#pragma once

#include "base/shape.h"
#include "layers/labels.h"
#include "net/plan/graph.h"

#include <vector>

namespace hp {

/// What each layer of a phase that reads labels of a source accepts, in the order of the layers; empty: none does.
/// Their columns are those of the labels that are told ahead (net/plan/labels_ahead.h).
/// @param shapes of the graph's tensors (NetGraph::Shapes), of any number of rows of `sample`.
std::vector<LabelRule> LabelRulesOf(const NetGraph& graph, const std::vector<Shape>& shapes, const SampleShape& sample);

}  // namespace hp
