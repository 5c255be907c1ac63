// Whether a layer reads classes in slices shows when everything below it is placed. So the net is placed as if no layer
// could be divided by classes, which puts such layers on shard 0, and then those whose classes lie in slices are cut. A
// cut changes nothing below it.
#include "net/plan/cuts.h"

namespace hp {
namespace {

GraphCuts CutsOfTable(const StageLayout& layout) {
  GraphCuts cuts;
  for (int i = 0; i < static_cast<int>(layout.stage_of_layer.size()); ++i) {
    const int index = layout.stage_of_layer[i];
    const StageLayout::Stage& stage = layout.stages[index];
    cuts.by_inputs.push_back(stage.sharded() && layout.SplitOf(i) == LayerSplit::kInputs);
    cuts.scattered.push_back(stage.sharded() && stage.scattered ? index : -1);
  }
  return cuts;
}

// Fewer classes than shards are gathered instead: some shards have none, and the numbers would be more than they.
bool CanBeCut(const NetGraph& graph, const std::vector<Shape>& shapes, const Placement& placement, int layer) {
  const GraphLayer& entry = graph.layers()[layer];
  if (entry.piece != GraphLayer::kAll || !entry.traits.class_split() || entry.tensor_labels) return false;
  const int stage = placement.stage_of(layer), classes = entry.bottoms[0];
  if (placement.stage_of(graph.blobs()[classes].producer) != stage) return false;
  if (placement.layout_of(classes) != Layout::kSlice) return false;
  const Shape& shape = shapes[classes];
  if (entry.traits.class_split()->last_axis && shape.rank() != 2) return false;
  if (shape.count(2) != 1 || shape.dim(1) < placement.distinct_parts(stage)) return false;
  // Only a loss has a gradient through the numbers of all shards.
  return entry.is_statistic() || !graph.blobs()[entry.tops[0]].needs_gradient;
}

}  // namespace

StatusOr<GraphCuts> FindCuts(const std::shared_ptr<const caffe::NetParameter>& net, Phase phase,
                             const LayerTypes& types, const SampleShape& sample, const StageLayout& layout) {
  GraphCuts cuts = CutsOfTable(layout);
  HP_ASSIGN_OR_RETURN(const std::unique_ptr<NetGraph> graph, NetGraph::Create(net, phase, types, cuts));
  HP_ASSIGN_OR_RETURN(const Placement placement, Placement::Create(*graph, sample, layout));
  HP_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, graph->Shapes(sample, 1));
  cuts.class_shards.resize(layout.stage_of_layer.size());
  for (int i = 0; i < static_cast<int>(graph->layers().size()); ++i) {
    if (!CanBeCut(*graph, shapes, placement, i)) continue;
    cuts.class_shards[graph->layers()[i].order] = placement.distinct_parts(placement.stage_of(i));
  }
  return cuts;
}

}  // namespace hp
