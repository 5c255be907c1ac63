#include "model/label_rules.h"

namespace hp {

std::vector<LabelRule> LabelRulesOf(const NetGraph& graph, const std::vector<Shape>& shapes) {
  std::vector<LabelRule> rules;
  for (const GraphLayer& layer : graph.layers()) {
    if (!layer.reads_labels() || layer.piece == GraphLayer::kMerged) continue;  // kClasses stands for both
    const int64_t classes = layer.label_targets ? 0 : shapes[layer.bottoms[0]].dim(1);
    rules.push_back({layer.traits.name(), classes, layer.traits.ignore_label()});
  }
  return rules;
}

}  // namespace hp
