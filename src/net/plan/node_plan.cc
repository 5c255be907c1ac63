// How a node's plan is made: layers first, in the order of the net, each in the segment that its inputs allow; then
// what leaves and what lands, which follows from the placement's edges and from those segments; then what learns. Only
// shapes for one sample are needed, since everything that crosses has one row for each sample.
#include "net/plan/node_plan.h"

#include <algorithm>

namespace hp {

StatusOr<NodePlan> NodePlan::Create(const NetGraph& graph, const Placement& placement, const Options& options) {
  NodePlan plan(graph, placement, options);
  HP_ASSIGN_OR_RETURN(plan.shapes_, graph.Shapes(options.sample, 1));
  for (int layer = 0; layer < static_cast<int>(graph.layers().size()); ++layer) {
    const bool mine = placement.stage_of(layer) == options.part.stage && placement.RunsOn(layer, plan.distinct_part());
    if (mine) plan.PlaceLayer(layer);
  }
  plan.AddLeavingPorts();
  plan.AddLandingPorts();
  plan.AddParams();
  plan.FindLearningLayers();
  return plan;
}

const LayerPlan* NodePlan::FindLayer(int layer) const {
  const auto found = places_.find(layer);
  return found == places_.end() ? nullptr : &layers_[found->second];
}

// --- Layers

void NodePlan::PlaceLayer(int layer) {
  const GraphLayer& entry = graph_->layers()[layer];
  LayerPlan plan;
  plan.layer = layer;
  for (size_t i = 0; i < entry.bottoms.size(); ++i) {
    const bool label = entry.traits.reads_labels() && i == 1;  // labels go ahead of the pipelines
    if (!label) plan.segment = std::max(plan.segment, SegmentOfInput(layer, entry.bottoms[i]));
  }
  plan.backward = !entry.source && placement_->Backpropagates(layer, distinct_part());
  plan.learns = plan.backward && entry.learns;
  const int64_t channels = shapes_[entry.tops[0]].dim(1);
  plan.channels = {0, channels};
  if (placement_->spread(entry.tops[0]) == Spread::kSlice) {
    plan.channels = PartOf(channels, part().index, placement_->layout().stages[part().stage].parts());
  }
  segments_ = std::max(segments_, plan.segment + 1);
  places_[layer] = static_cast<int>(layers_.size());
  layers_.push_back(plan);
}

int NodePlan::SegmentOfInput(int layer, int bottom) const {
  const int producer = graph_->blobs()[bottom].producer;
  if (placement_->ReadsLocally(layer, bottom)) return layers_[places_.at(producer)].segment;
  const Edge& edge = placement_->edges()[placement_->FindEdge(bottom, part().stage)];
  return edge.within_stage() ? layers_[places_.at(producer)].segment + 1 : 0;
}

// --- Ports

bool NodePlan::Writes(const Edge& edge) const {
  return edge.from_stage == part().stage && (edge.parts > 1 || distinct_part() == 0);
}

int64_t NodePlan::RowBytes(int edge_index, int writer) const {
  const Edge& edge = placement_->edges()[edge_index];
  Shape shape = shapes_[edge.blob];
  if (edge.parts > 1) shape = shape.With(1, PartOf(shape.dim(1), writer, edge.parts).size());
  return shape.count(1) * static_cast<int64_t>(sizeof(float));
}

void NodePlan::AddPort(const PortPlan& port, int other_stage) {
  ports_.push_back(port);
  PortPlan& added = ports_.back();
  added.channel = static_cast<uint32_t>(port.edge) * 2 + (port.gradient ? 1 : 0);
  const std::vector<Rank>& ranks = placement_->layout().stages[other_stage].ranks;
  // Readers are told apart, whoever they are; of writers that are replicas, it is the one whose micro-batch it is.
  const bool any_replica = port.landing != port.gradient && placement_->layout().stages[other_stage].data_parallel;
  added.peers = any_replica ? ranks : std::vector<Rank>{ranks[port.part]};
}

// What leaves a node leaves after the segment of the layer that makes it; its gradients land before that segment's
// backward pass. One reader may be this node itself.
void NodePlan::AddLeavingPorts() {
  std::vector<LayerPlan> order = layers_;
  std::stable_sort(order.begin(), order.end(),
                   [](const LayerPlan& a, const LayerPlan& b) { return a.segment < b.segment; });
  for (const LayerPlan& layer : order) {
    for (int top : graph_->layers()[layer.layer].tops) {
      for (int e = 0; e < static_cast<int>(placement_->edges().size()); ++e) {
        const Edge& edge = placement_->edges()[e];
        if (edge.blob != top || !Writes(edge)) continue;
        const int64_t row_bytes = RowBytes(e, part().index);
        for (bool gradient : {false, true}) {
          for (int reader = 0; reader < edge.readers; ++reader) {
            if (edge.within_stage() && reader == part().index) continue;
            if (gradient && !edge.reader_gradient[reader]) continue;
            AddPort({.edge = e,
                     .part = reader,
                     .landing = gradient,
                     .gradient = gradient,
                     .segment = layer.segment,
                     .row_bytes = row_bytes},
                    edge.to_stage);
          }
        }
      }
    }
  }
}

// What lands is needed before the first segment that reads it, or that gathers the parts into one tensor.
int NodePlan::LandingSegment(int edge_index) const {
  const Edge& edge = placement_->edges()[edge_index];
  int segment = segments_, gathered = segments_;
  for (int consumer : graph_->blobs()[edge.blob].consumers) {
    const LayerPlan* const reader = FindLayer(consumer);
    if (reader == nullptr || placement_->ReadsLocally(consumer, edge.blob)) continue;
    segment = std::min(segment, reader->segment);
    const bool reads_parts = graph_->layers()[consumer].traits.channel_use() == ChannelUse::kSplitOutput;
    if (!reads_parts && edge.parts > 1) gathered = std::min(gathered, SegmentOfInput(consumer, edge.blob));
  }
  return std::min(segment, gathered);
}

void NodePlan::AddLandingPorts() {
  std::vector<bool> seen(placement_->edges().size(), false);
  for (const LayerPlan& layer : layers_) {
    const GraphLayer& entry = graph_->layers()[layer.layer];
    for (size_t i = 0; i < entry.bottoms.size(); ++i) {
      const bool label = entry.traits.reads_labels() && i == 1;
      if (label || placement_->ReadsLocally(layer.layer, entry.bottoms[i])) continue;
      const int e = placement_->FindEdge(entry.bottoms[i], part().stage);
      if (seen[e]) continue;
      seen[e] = true;
      const Edge& edge = placement_->edges()[e];
      const int segment = LandingSegment(e);
      const bool returns = edge.reader_gradient[edge.readers > 1 ? part().index : 0];
      for (int writer = 0; writer < edge.parts; ++writer) {
        if (edge.within_stage() && writer == part().index) continue;
        PortPlan port{.edge = e, .part = writer, .landing = true, .segment = segment, .row_bytes = RowBytes(e, writer)};
        AddPort(port, edge.from_stage);
        if (!returns) continue;
        port.landing = false;
        port.gradient = true;
        AddPort(port, edge.from_stage);
      }
    }
  }
}

// --- Parameters

void NodePlan::AddParams() {
  for (const LayerPlan& layer : layers_) {
    const GraphLayer& entry = graph_->layers()[layer.layer];
    if (entry.source) continue;
    std::vector<Shape> in;
    for (int bottom : entry.bottoms) in.push_back(shapes_[bottom]);
    const bool sliced = placement_->spread(entry.tops[0]) == Spread::kSlice;
    int blob = 0;
    for (const ParamSpec& spec : entry.traits.Params(in)) {
      const Block block =
          sliced ? Block::Rows(spec.shape, layer.channels.begin, layer.channels.end) : Block::Whole(spec.shape);
      params_.push_back({entry.traits.name(), blob++, spec, block});
    }
  }
}

void NodePlan::FindLearningLayers() {
  for (int i = 0; i < static_cast<int>(layers_.size()); ++i) {
    if (!layers_[i].learns) continue;
    layers_[i].deferred = CanBeDeferred(layers_[i].layer);
    layers_[i].in_backward = data_parallel() && !layers_[i].deferred;
    learning_layers_.push_back(i);
  }
  std::stable_sort(learning_layers_.begin(), learning_layers_.end(),
                   [this](int a, int b) { return layers_[a].segment < layers_[b].segment; });
}

// Rule of deferral: the rows to keep (inputs and output gradients of a whole update) take less memory than the
// gradient. Images are the reader's memory, one micro-batch at a time, and can't be kept.
bool NodePlan::CanBeDeferred(int layer) const {
  const GraphLayer& entry = graph_->layers()[layer];
  if (update_rows() == 0 || entry.traits.channel_use() != ChannelUse::kSplitOutput) return false;
  if (IsImages(entry.bottoms[0])) return false;
  const __int128 inputs = shapes_[entry.bottoms[0]].count(1);
  const __int128 outputs = FindLayer(layer)->channels.size();
  return update_rows() * (inputs + outputs) < inputs * outputs;
}

// Whether a blob lies in the images' memory on this node: it is the images, or the same bytes under another name.
bool NodePlan::IsImages(int blob) const {
  const int producer = graph_->blobs()[blob].producer;
  const GraphLayer& entry = graph_->layers()[producer];
  if (FindLayer(producer) == nullptr) return false;
  if (entry.source) return true;
  return (entry.in_place || entry.traits.is_view()) && graph_->blobs()[blob].top_index == 0 &&
         IsImages(entry.bottoms[0]);
}

// --- Segments

bool NodePlan::has_backward(int segment) const {
  const auto in_segment = [segment](const auto& entry) { return entry.segment == segment; };
  return std::any_of(layers_.begin(), layers_.end(), [&](const auto& l) { return in_segment(l) && l.backward; }) ||
         std::any_of(ports_.begin(), ports_.end(), [&](const auto& p) { return in_segment(p) && p.gradient; });
}

bool NodePlan::reads_images() const {
  return std::any_of(layers_.begin(), layers_.end(),
                     [this](const LayerPlan& layer) { return graph_->layers()[layer.layer].source; });
}

bool NodePlan::reads_labels(int segment) const {
  return std::any_of(layers_.begin(), layers_.end(), [&](const LayerPlan& layer) {
    return layer.segment == segment && graph_->layers()[layer.layer].traits.reads_labels();
  });
}

bool NodePlan::needs_batch_labels(int segment) const {
  return std::any_of(layers_.begin(), layers_.end(), [&](const LayerPlan& layer) {
    return layer.segment == segment && graph_->layers()[layer.layer].traits.needs_batch_labels();
  });
}

}  // namespace hp
