#include "net/plan/labels_ahead.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hp {
namespace {

std::vector<int64_t> Consecutive(int64_t begin, int64_t count) {
  std::vector<int64_t> columns(count);
  std::iota(columns.begin(), columns.end(), begin);
  return columns;
}

/// Where the labels of a top begin in a row.
int64_t FirstColumnOf(const NetGraph& graph, std::pair<int, int> source, const SampleShape& sample) {
  int64_t column = sample.labels();
  for (const SourceTop& top : graph.source_tops()) {
    const bool here = source == std::pair(top.layer, top.top);
    if (top.role == SourceTop::kLabels && here) return 0;
    if (top.role == SourceTop::kLabels || !top.goes_ahead) continue;
    if (here) return column;
    column += graph.RowOf(top, sample).count();
  }
  return column;
}

const SourceTop& TopOf(const NetGraph& graph, const LabelPath& path) {
  return *std::find_if(graph.source_tops().begin(), graph.source_tops().end(),
                       [&](const SourceTop& top) { return path.source == std::pair(top.layer, top.top); });
}

std::vector<int64_t> ColumnsAt(const NetGraph& graph, const LabelPath& path, const SampleShape& sample) {
  const Shape& of_sample = graph.RowOf(TopOf(graph, path), sample);
  std::vector<int64_t> columns = Consecutive(FirstColumnOf(graph, path.source, sample), of_sample.count());
  std::vector<int64_t> dims = {1};
  dims.insert(dims.end(), of_sample.dims().begin(), of_sample.dims().end());
  Shape shape(std::move(dims));
  for (const auto& [layer, top] : path.steps) {
    const auto entry = std::find_if(graph.layers().begin(), graph.layers().end(),
                                    [layer = layer](const GraphLayer& l) { return l.order == layer; });
    std::vector<int64_t> taken = entry->traits.Elements(shape, top);
    for (int64_t& element : taken) element = columns[element];
    columns = std::move(taken);
    shape = (*entry->traits.OutputShapes({shape}))[top];
  }
  return columns;
}

}  // namespace

int64_t LabelsOfRow(const NetGraph& graph, const SampleShape& sample) { return FirstColumnOf(graph, {-1, -1}, sample); }

std::vector<int64_t> LabelColumnsOf(const NetGraph& graph, const GraphLayer& layer, const SampleShape& sample) {
  if (layer.reads_labels()) return Consecutive(0, sample.labels());
  return layer.label_path < 0 ? std::vector<int64_t>()
                              : ColumnsAt(graph, graph.label_paths()[layer.label_path], sample);
}

std::vector<LabelNumber> LabelNumbersOf(const NetGraph& graph, const SampleShape& sample) {
  std::vector<LabelNumber> numbers;
  for (const CountedLabels& counted : graph.counted_labels()) {
    const LabelPath* const path = numbers.empty() ? nullptr : &graph.label_paths()[counted.path];
    std::vector<int64_t> columns = path == nullptr ? Consecutive(0, sample.labels()) : ColumnsAt(graph, *path, sample);
    const bool is_count = columns.size() > 1 || (path != nullptr && !path->classes);
    numbers.push_back({std::move(columns), counted.ignore_label, is_count});
  }
  return numbers;
}

Status CheckPixelLabels(const NetGraph& graph, const SampleShape& sample, const StageLayout& layout) {
  if (!sample.label.InBounds())
    return InvalidArgument("samples have labels of shape [%s], which none can have", sample.label.ToString().c_str());
  for (const GraphLayer& layer : graph.layers()) {
    if (!layer.reads_labels() || !sample.several_labels() || layout.stage_of_layer[layer.order] == 0) continue;
    return InvalidArgument(
        "layer \"%s\": reads %lld labels of each row, which stay on the nodes that read the samples; expected it in "
        "the first stage",
        layer.traits.name().c_str(), static_cast<long long>(sample.labels()));
  }
  return OkStatus();
}

}  // namespace hp
