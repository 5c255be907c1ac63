#pragma once

#include "base/sample_shape.h"
#include "hp/status.h"
#include "net/plan/graph.h"
#include "net/plan/placement.h"

#include <cstdint>
#include <vector>

namespace hp {

// Labels go ahead of the micro-batches: who reads a sample tells its labels as soon as its record is read, those of the
// blob of labels and of other tops that layers take for classes or count (SourceTop::goes_ahead), one behind the other.
// Their columns are numbered through. What is told the other nodes is a few numbers for each row. Rows with several
// labels, such as one for each pixel, are as large as images and stay with them on the nodes that read the samples.

/// The numbers of a phase: the first of the blob of labels (BatchContext::batch_labels), the others of what layers
/// count besides (GraphLayer::label_number). @param sample that the graph's sources yield, and its layers can take
/// (NetGraph::Shapes), here and below.
std::vector<LabelNumber> LabelNumbersOf(const NetGraph& graph, const SampleShape& sample);
/// How many labels a row has.
int64_t LabelsOfRow(const NetGraph& graph, const SampleShape& sample);
/// Those that a layer reads; empty: it computes its labels otherwise.
std::vector<int64_t> LabelColumnsOf(const NetGraph& graph, const GraphLayer& layer, const SampleShape& sample);

/// Checks that a table keeps several labels of a row where they are.
/// @return kInvalidArgument, naming the layer: it reads such labels in another stage than the first.
Status CheckPixelLabels(const NetGraph& graph, const SampleShape& sample, const StageLayout& layout);

}  // namespace hp
