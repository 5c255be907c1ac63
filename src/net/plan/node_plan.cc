// How a node's plan is made: layers first, in the order of the net, each in the segment that its inputs allow; then
// what leaves and what lands, which follows from the placement's edges and from those segments; then what learns. Only
// shapes for one sample are needed, since everything that crosses has one row for each sample.
#include "net/plan/node_plan.h"

#include "net/plan/sample_room.h"
#include "net/plan/shared_params.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace hp {

StatusOr<NodePlan> NodePlan::Create(const NetGraph& graph, const Placement& placement, const Options& options) {
  NodePlan plan(graph, placement, options);
  HP_ASSIGN_OR_RETURN(plan.shapes_, graph.Shapes(options.sample, 1));
  HP_RETURN_IF_ERROR(plan.CheckSamples());
  HP_RETURN_IF_ERROR(CheckShared(graph, placement, plan.shapes_));
  plan.PlaceLayers();
  plan.PlaceBlocks();
  plan.AddLeavingPorts();
  plan.AddLandingPorts();
  plan.AddParams();
  plan.FindLearningLayers();
  plan.FindGroups();
  plan.DecideGradients();
  return plan;
}

const LayerPlan* NodePlan::FindLayer(int layer) const {
  const auto found = places_.find(layer);
  return found == places_.end() ? nullptr : &layers_[found->second];
}

// --- Parts

int NodePlan::FindPart(int stage) const {
  const auto found =
      std::find_if(parts().begin(), parts().end(), [stage](const StagePart& part) { return part.stage == stage; });
  return found == parts().end() ? -1 : static_cast<int>(found - parts().begin());
}

int NodePlan::distinct_part(int stage) const { return data_parallel(stage) ? 0 : parts()[FindPart(stage)].index; }

bool NodePlan::IsLocal(const Edge& edge, const EdgePiece& piece) const {
  const auto here = [this](int stage, int part) { return FindPart(stage) >= 0 && distinct_part(stage) == part; };
  return here(edge.from_stage, piece.writer) && here(edge.to_stage, piece.reader);
}

// --- Layers

int NodePlan::ChannelsOf(int layer) const {
  const GraphLayer& entry = graph_->layers()[layer];
  if (entry.sampled_by >= 0) return graph_->layers()[entry.sampled_by].tops[0];
  const bool classes = entry.piece == GraphLayer::kClasses || entry.piece == GraphLayer::kMerged;
  return classes ? graph_->ClassesOf(layer) : entry.tops[0];
}

void NodePlan::PlaceLayers() {
  std::set<int> levels;
  std::vector<int> mine;
  for (int layer = 0; layer < static_cast<int>(graph_->layers().size()); ++layer) {
    const int stage = placement_->stage_of(layer);
    if (FindPart(stage) < 0 || !placement_->RunsOn(layer, distinct_part(stage))) continue;
    mine.push_back(layer);
    levels.insert(placement_->level_of(layer));
  }
  segments_ = std::max<int>(1, static_cast<int>(levels.size()));
  for (int layer : mine) {
    const GraphLayer& entry = graph_->layers()[layer];
    const int part = distinct_part(placement_->stage_of(layer));
    LayerPlan plan;
    plan.layer = layer;
    plan.segment = static_cast<int>(std::distance(levels.begin(), levels.find(placement_->level_of(layer))));
    plan.backward = !entry.source && placement_->Backpropagates(layer, part);
    plan.only_gathers = !entry.source && !plan.backward && graph_->phase().train() && entry.learns &&
                        entry.traits.uses_batch_statistics();
    plan.backward |= plan.only_gathers;
    plan.learns = plan.backward && entry.learns;
    plan.channels = placement_->ChannelsOn(ChannelsOf(layer), part);
    if (entry.sampled_by >= 0) {
      const float rate = graph_->layers()[entry.sampled_by].traits.sample_rate();
      plan.sample_room = SampleRoom(plan.channels.size(), rate, update_rows());
    }
    places_[layer] = static_cast<int>(layers_.size());
    layers_.push_back(plan);
  }
}

// Where a test only wants losses and accuracies of the classes that lie here, nothing needs the scores of all at once.
void NodePlan::PlaceBlocks() {
  if (graph_->phase().train()) return;
  for (LayerPlan& product : layers_) {
    const GraphLayer& entry = graph_->layers()[product.layer];
    if (entry.source || entry.traits.sample_rate() == 1 || product.channels.size() <= kClassBlock) continue;
    const int classes = entry.tops[0];
    const std::vector<int>& readers = graph_->blobs()[classes].consumers;
    const auto in_blocks = [&](int reader) { return ReadsInBlocks(reader, classes); };
    if (readers.empty() || !std::all_of(readers.begin(), readers.end(), in_blocks)) continue;
    product.class_block = kClassBlock;
    for (int reader : readers) layers_[places_.at(reader)].class_block = kClassBlock;
  }
}

bool NodePlan::ReadsInBlocks(int layer, int classes) const {
  const GraphLayer& entry = graph_->layers()[layer];
  return entry.bottoms[0] == classes && entry.traits.is_statistic() && entry.traits.class_split() &&
         !entry.tensor_labels && entry.label_number == 0 && FindLayer(layer) != nullptr &&
         placement_->ReadsLocally(layer, classes);
}

// Which columns a sample has is known where its loss is; so it never crosses.
Status NodePlan::CheckSamples() const {
  const auto& layers = graph_->layers();
  for (int i = 0; i < static_cast<int>(layers.size()); ++i) {
    const int product = layers[i].sampled_by;
    if (product < 0 || product == i || placement_->ReadsLocally(i, layers[product].tops[0])) continue;
    return InvalidArgument(
        "layer \"%s\": with sample_rate below 1 it and layer \"%s\" must be in one stage, of at most as many shards as "
        "it has outputs",
        layers[product].traits.name().c_str(), layers[i].traits.name().c_str());
  }
  return OkStatus();
}

// --- Ports

std::vector<EdgePiece> NodePlan::PiecesIn(const Edge& edge) const {
  if (FindPart(edge.to_stage) < 0) return {};
  return placement_->PiecesTo(edge, distinct_part(edge.to_stage));
}

std::vector<EdgePiece> NodePlan::PiecesOut(const Edge& edge) const {
  if (FindPart(edge.from_stage) < 0) return {};
  return placement_->PiecesFrom(edge, distinct_part(edge.from_stage));
}

void NodePlan::AddPort(PortPlan port, const EdgePiece& piece) {
  const Edge& edge = placement_->edges()[port.edge];
  const bool leaves = port.landing == port.gradient;  // as a value
  const int other_stage = leaves ? edge.to_stage : edge.from_stage;
  port.part = leaves ? piece.reader : piece.writer;
  port.channel = static_cast<uint32_t>(port.edge) * 2 + (port.gradient ? 1 : 0);
  Shape shape = shapes_[edge.blob];
  if (shape.rank() > 1) shape = shape.With(1, piece.channels.size());
  port.row_bytes = shape.count(1) * static_cast<int64_t>(BytesOf(edge.element));
  const std::vector<Rank>& ranks = placement_->layout().stages[other_stage].ranks;
  port.peers = data_parallel(other_stage) ? ranks : std::vector<Rank>{ranks[port.part]};
  ports_.push_back(port);
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
        if (edge.blob != top) continue;
        for (bool gradient : {false, true}) {
          for (const EdgePiece& piece : PiecesOut(edge)) {
            if (IsLocal(edge, piece)) continue;
            if (gradient && !piece.gradient) continue;
            AddPort({.edge = e, .landing = gradient, .gradient = gradient, .segment = layer.segment}, piece);
          }
        }
      }
    }
  }
}

// What lands is needed before the first segment that reads it.
int NodePlan::LandingSegment(int edge_index) const {
  const Edge& edge = placement_->edges()[edge_index];
  int segment = segments_;
  for (int consumer : graph_->blobs()[edge.blob].consumers) {
    const LayerPlan* const reader = FindLayer(consumer);
    if (reader == nullptr || placement_->ReadsLocally(consumer, edge.blob)) continue;
    if (placement_->EdgeOf(consumer, edge.blob) == edge_index) segment = std::min(segment, reader->segment);
  }
  return segment;
}

void NodePlan::AddLandingPorts() {
  std::vector<bool> seen(placement_->edges().size(), false);
  for (const LayerPlan& layer : layers_) {
    const GraphLayer& entry = graph_->layers()[layer.layer];
    for (size_t i = 0; i < entry.bottoms.size(); ++i) {
      const bool label = entry.is_label(i);
      if (label || placement_->ReadsLocally(layer.layer, entry.bottoms[i])) continue;
      const int e = placement_->EdgeOf(layer.layer, entry.bottoms[i]);
      if (seen[e]) continue;
      seen[e] = true;
      const Edge& edge = placement_->edges()[e];
      const int segment = LandingSegment(e);
      for (const EdgePiece& piece : PiecesIn(edge)) {
        if (IsLocal(edge, piece)) continue;
        AddPort({.edge = e, .landing = true, .segment = segment}, piece);
        if (piece.gradient) AddPort({.edge = e, .gradient = true, .segment = segment}, piece);
      }
    }
  }
}

// --- Parameters

// Layers of one stage that share a parameter have the same part of it (CheckShared), and so the node has its owner too,
// which comes first; in a test the owner may be of phase TRAIN alone.
void NodePlan::AddParams() {
  params_ = options_.served;
  std::map<std::pair<std::string, int>, int> known;  // by owner's layer and blob
  for (const LayerPlan& layer : layers_) {
    const GraphLayer& entry = graph_->layers()[layer.layer];
    std::vector<int>& of_layer = params_of_[layer.layer];
    if (entry.source) continue;
    std::vector<Shape> in;
    for (int bottom : entry.bottoms) in.push_back(shapes_[bottom]);
    const int part = distinct_part(placement_->stage_of(layer.layer));
    int blob = entry.first_blob();
    for (const ParamSpec& spec : entry.Params(in)) {
      ParamPlan param{entry.traits.name(),
                      blob,
                      layer.layer,
                      spec,
                      placement_->BlockOn(layer.layer, part, spec),
                      entry.sampled_by == layer.layer ? layer.sample_room : 0};
      if (const SharedParams::Param* const shared = graph_->shared().Find(param.layer, blob++)) {
        param.layer = shared->uses[0].layer;
        param.blob = shared->uses[0].blob;
        param.users = UsersOf(*graph_, shapes_, *shared);
      }
      const auto [found, added] = known.try_emplace({param.layer, param.blob}, static_cast<int>(params_.size()));
      of_layer.push_back(found->second);
      if (added) params_.push_back(std::move(param));
    }
  }
}

void NodePlan::FindLearningLayers() {
  for (int i = 0; i < static_cast<int>(layers_.size()); ++i) {
    if (layers_[i].learns) learning_layers_.push_back(i);
  }
  std::stable_sort(learning_layers_.begin(), learning_layers_.end(),
                   [this](int a, int b) { return layers_[a].segment < layers_[b].segment; });
}

bool NodePlan::SharesParams(int a, int b) const {
  const std::vector<int>& of_b = params_of(layers_[b].layer);
  const auto has = [&of_b](int param) { return std::find(of_b.begin(), of_b.end(), param) != of_b.end(); };
  const std::vector<int>& of_a = params_of(layers_[a].layer);
  return std::any_of(of_a.begin(), of_a.end(), has);
}

// A layer joins the first group that it shares a parameter with, and makes one of all others.
void NodePlan::FindGroups() {
  for (const int layer : learning_layers_) {
    std::vector<int>* joined = nullptr;
    for (std::vector<int>& group : param_groups_) {
      if (std::none_of(group.begin(), group.end(), [&](int other) { return SharesParams(other, layer); })) continue;
      if (joined == nullptr) {
        joined = &group;
      } else {
        joined->insert(joined->end(), group.begin(), group.end());
        group.clear();
      }
    }
    if (joined == nullptr) joined = &param_groups_.emplace_back();
    joined->push_back(layer);
  }
  std::erase_if(param_groups_, [](const std::vector<int>& group) { return group.empty(); });
  for (std::vector<int>& group : param_groups_) {
    const auto place = [this](int layer) { return std::find(learning_layers_.begin(), learning_layers_.end(), layer); };
    std::sort(group.begin(), group.end(), [&](int a, int b) { return place(a) < place(b); });
    for (const int layer : group) {
      for (const int param : params_of(layers_[layer].layer)) params_[param].graph_layer = layers_[group[0]].layer;
    }
  }
}

// What several layers add to is added by each micro-batch.
void NodePlan::DecideGradients() {
  for (const std::vector<int>& group : param_groups_) {
    for (const int i : group) {
      LayerPlan& layer = layers_[i];
      layer.shares = group.size() > 1;
      layer.deferred = !layer.shares && CanBeDeferred(layer);
      layer.in_backward = data_parallel(placement_->stage_of(layer.layer)) && !layer.deferred;
    }
  }
}

// Rule of deferral: the rows to keep (inputs and output gradients of a whole update) take less memory than the
// gradient. A replica among several gives its gradients to the exchange as they come, and images are the reader's
// memory, one micro-batch at a time: neither can be kept.
bool NodePlan::CanBeDeferred(const LayerPlan& plan) const {
  const int layer = plan.layer;
  const GraphLayer& entry = graph_->layers()[layer];
  const ChannelUse use = entry.channel_use();
  if (update_rows() == 0 || (use != ChannelUse::kSplitOutput && use != ChannelUse::kSplitInput)) return false;
  const int stage = placement_->stage_of(layer);
  const StageLayout::Stage& layout = placement_->layout().stages[stage];
  if (layout.data_parallel && (layout.parts() > 1 || layout.served)) return false;
  if (IsImages(stage, entry.bottoms[0])) return false;
  const Block& weights = params_[params_of(layer)[0]].block;
  const __int128 inputs = weights.cols(), outputs = plan.sample_room > 0 ? plan.sample_room : weights.rows();
  return update_rows() * (inputs + outputs) < inputs * outputs;
}

// Whether a layer of the stage finds a blob in the images' memory: it is the images, or the same bytes under another
// name. What comes by an edge has memory of its own.
bool NodePlan::IsImages(int stage, int blob) const {
  const int producer = graph_->blobs()[blob].producer;
  const GraphLayer& entry = graph_->layers()[producer];
  if (FindLayer(producer) == nullptr || placement_->stage_of(producer) != stage) return false;
  if (entry.source) return true;
  return (entry.in_place || entry.traits.is_view()) && graph_->blobs()[blob].top_index == 0 &&
         IsImages(stage, entry.bottoms[0]);
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
    const GraphLayer& entry = graph_->layers()[layer.layer];
    return layer.segment == segment && (entry.reads_labels() || entry.needs_batch_labels());
  });
}

bool NodePlan::draws_sample(int segment) const {
  return std::any_of(layers_.begin(), layers_.end(), [&](const LayerPlan& layer) {
    return layer.segment == segment && graph_->layers()[layer.layer].sampled_by == layer.layer;
  });
}

bool NodePlan::needs_batch_labels(int segment) const {
  return std::any_of(layers_.begin(), layers_.end(), [&](const LayerPlan& layer) {
    return layer.segment == segment && graph_->layers()[layer.layer].needs_batch_labels();
  });
}

}  // namespace hp
