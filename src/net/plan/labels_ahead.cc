#include "net/plan/labels_ahead.h"

#include "glog/logging.h"

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

/// Where the labels of a top begin in a row. @param top null: where those of all tops end.
int64_t ColumnOf(const NetGraph& graph, const SampleShape& sample, const SourceTop* top) {
  if (top != nullptr && top->role == SourceTop::kLabels) return 0;
  int64_t column = sample.labels();
  for (const SourceTop& other : graph.source_tops()) {
    if (&other == top) break;
    if (other.goes_ahead && other.role != SourceTop::kLabels) column += graph.RowOf(other, sample).count();
  }
  return column;
}

const SourceTop& TopOf(const NetGraph& graph, const LabelPath& path) {
  return *std::find_if(graph.source_tops().begin(), graph.source_tops().end(),
                       [&](const SourceTop& top) { return path.source == std::pair(top.layer, top.top); });
}

/// The graph's shapes have been checked, so the path fits.
std::vector<int64_t> ColumnsAt(const NetGraph& graph, const LabelPath& path, const SampleShape& sample) {
  const SourceTop& top = TopOf(graph, path);
  const Shape& row = graph.RowOf(top, sample);
  StatusOr<std::vector<int64_t>> columns = ElementsOf(path, graph.net(), row, LayerTypes::BuiltIn());
  CHECK(columns.ok()) << columns.status();
  for (int64_t& column : *columns) column += ColumnOf(graph, sample, &top);
  return *std::move(columns);
}

}  // namespace

int64_t LabelsOfRow(const NetGraph& graph, const SampleShape& sample) { return ColumnOf(graph, sample, nullptr); }

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
