#include "scheduler/planner/layer_cost.h"

namespace hp {
namespace {

constexpr int64_t kFloat = sizeof(float);

LayerCost CostOf(const NetGraph& graph, const GraphLayer& entry, const std::vector<Shape>& shapes) {
  LayerCost cost;
  cost.layer = entry.traits.name();
  if (entry.source || entry.traits.is_view()) return cost;
  std::vector<Shape> in;
  for (size_t i = 0; i < entry.bottoms.size(); ++i) {
    in.push_back(shapes[entry.bottoms[i]]);
    if (entry.is_label(i)) continue;
    cost.in_bytes += in.back().count() * kFloat;
    cost.input_gradient |= graph.phase().train() && entry.traits.has_gradient() &&
                           graph.blobs()[entry.bottoms[i]].needs_gradient && entry.propagates(i);
  }
  for (int top : entry.tops) cost.out_bytes += shapes[top].count() * kFloat;
  const std::vector<ParamSpec> params = entry.Params(in);
  bool learns = false;
  for (int i = 0; i < static_cast<int>(params.size()); ++i) {
    const int64_t bytes = params[static_cast<size_t>(i)].shape.count() * kFloat;
    cost.parameter_bytes += bytes;
    const SharedParams::Param* const shared = graph.shared().Find(cost.layer, entry.first_blob() + i);
    const bool own = shared == nullptr || shared->uses[0].layer == cost.layer;
    if (!own) cost.shared_bytes += bytes;
    if (!graph.phase().train() || params[static_cast<size_t>(i)].lr_mult == 0) continue;
    learns = true;
    if (own) cost.learned_bytes += bytes;
  }
  cost.looks_up = entry.traits.looks_up();
  if (!params.empty() && entry.first_blob() == 0 && !cost.looks_up) {
    const Shape& positions = entry.traits.deconvolves() ? in[0] : shapes[entry.tops[0]];
    cost.products = params[0].shape.count() * (positions.rank() > 2 ? positions.count(2) : 1);
  }
  cost.learns = learns && (entry.leads_to_loss || entry.traits.uses_batch_statistics());
  return cost;
}

}  // namespace

std::vector<LayerCost> CostsOf(const NetGraph& graph, const std::vector<Shape>& shapes) {
  std::vector<LayerCost> costs;
  for (const GraphLayer& entry : graph.layers()) costs.push_back(CostOf(graph, entry, shapes));
  return costs;
}

NetCost SumOf(const std::vector<LayerCost>& costs) {
  NetCost sum;
  for (const LayerCost& cost : costs) {
    sum.products += cost.products;
    sum.parameter_bytes += cost.parameter_bytes - cost.shared_bytes;
  }
  return sum;
}

}  // namespace hp
