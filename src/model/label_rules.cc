#include "model/label_rules.h"

#include "net/plan/labels_ahead.h"

#include <utility>

namespace hp {

std::vector<LabelRule> LabelRulesOf(const NetGraph& graph, const std::vector<Shape>& shapes,
                                    const SampleShape& sample) {
  std::vector<LabelRule> rules;
  for (const GraphLayer& layer : graph.layers()) {
    if (layer.piece == GraphLayer::kMerged) continue;  // kClasses stands for both
    std::vector<int64_t> columns = LabelColumnsOf(graph, layer, sample);
    if (columns.empty()) continue;
    const int64_t classes = !layer.traits.reads_labels() ? 0 : layer.traits.classes(shapes[layer.bottoms[0]]);
    rules.push_back({layer.traits.name(), classes, layer.traits.ignore_label(), std::move(columns),
                     /*wrong_counts=*/!layer.traits.is_loss()});
  }
  return rules;
}

}  // namespace hp
