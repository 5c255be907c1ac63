#include "net/plan/pixel_labels.h"

namespace hp {

std::optional<int> CountedIgnoreLabel(const NetGraph& graph) {
  for (const GraphLayer& layer : graph.layers()) {
    if (layer.reads_labels() && layer.needs_batch_labels()) return layer.traits.ignore_label();
  }
  return std::nullopt;
}

Status CheckPixelLabels(const NetGraph& graph, const SampleShape& sample, const StageLayout& layout) {
  if (!sample.label.InBounds())
    return InvalidArgument("samples have labels of shape [%s], which none can have", sample.label.ToString().c_str());
  const bool several = sample.several_labels();
  const GraphLayer* first = nullptr;  // that counts
  for (const GraphLayer& layer : graph.layers()) {
    if (!layer.reads_labels()) continue;
    if (!several) continue;
    const char* const name = layer.traits.name().c_str();
    if (layout.stage_of_layer[layer.order] != 0) {
      return InvalidArgument(
          "layer \"%s\": reads %lld labels of each row, which stay on the nodes that read the samples; expected it in "
          "the first stage",
          name, static_cast<long long>(sample.labels()));
    }
    if (!layer.needs_batch_labels()) continue;
    if (first == nullptr) first = &layer;
    if (layer.traits.ignore_label() == first->traits.ignore_label()) continue;
    return InvalidArgument(
        "layer \"%s\": ignore_label: %d differs from %d of layer \"%s\"; with %lld labels in a row all layers of "
        "a phase that count labels need the same one",
        name, *layer.traits.ignore_label(), *first->traits.ignore_label(), first->traits.name().c_str(),
        static_cast<long long>(sample.labels()));
  }
  return OkStatus();
}

}  // namespace hp
