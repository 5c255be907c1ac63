#pragma once

#include "base/sample_shape.h"
#include "hp/status.h"
#include "net/plan/graph.h"
#include "net/plan/placement.h"

#include <optional>

namespace hp {

// Rows with several labels each (SampleShape::label), such as one for each pixel. They are as large as images, and stay
// with them on the nodes that read the samples; ahead of the micro-batches goes only how many labels of each row count,
// a number for each row as an ordinary label is.

/// The ignore_label of the layers of a phase that count the labels of a whole batch; nothing: there are none.
std::optional<int> CountedIgnoreLabel(const NetGraph& graph);

/// Checks that net and table keep to that.
/// @return kInvalidArgument, naming the layer: it reads such labels in another stage than the first, counts them with
/// another ignored label than a layer before it does.
Status CheckPixelLabels(const NetGraph& graph, const SampleShape& sample, const StageLayout& layout);

}  // namespace hp
