// Four passes: PlaceLayers decides for each layer of a sharded stage on which shards it runs, and so how its tops lie;
// FindEdges lists the blobs that some reader can't read where and as they lie, piece by piece; FindLevels counts the
// edges on the way to each layer; FollowGradients goes from the losses down and marks which layers compute gradients on
// which part, and which pieces have one that returns. Stages that are not sharded have whole blobs everywhere, and only
// edges to other stages.
#include "net/plan/placement.h"

#include "net/plan/labels_ahead.h"

#include <algorithm>
#include <map>
#include <utility>

namespace hp {
namespace {

Range Intersection(const Range& a, const Range& b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

}  // namespace

StatusOr<Placement> Placement::Create(const NetGraph& graph, const SampleShape& sample, const StageLayout& layout) {
  HP_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, graph.Shapes(sample, 1));
  HP_RETURN_IF_ERROR(CheckPixelLabels(graph, sample, layout));
  Placement placement(graph, shapes, layout);
  HP_RETURN_IF_ERROR(placement.PlaceLayers());
  placement.FindEdges();
  placement.FindLevels();
  placement.FollowGradients();
  return placement;
}

Placement::Placement(const NetGraph& graph, const std::vector<Shape>& shapes, const StageLayout& layout)
    : graph_(&graph), layout_(layout) {
  for (const Shape& shape : shapes) channels_.push_back(shape.rank() > 1 ? shape.dim(1) : 1);
}

Range Placement::ChannelsOn(int blob, int part) const {
  const int producer = graph_->blobs()[blob].producer;
  if (!runs_on_[producer][part]) return {};
  if (layout_of_[blob] != Layout::kSlice) return {0, channels_[blob]};
  return PartOf(channels_[blob], part, layout_.stages[stage_of(producer)].parts());
}

Block Placement::BlockOn(int layer, int part, const ParamSpec& param) const {
  const GraphLayer& entry = graph_->layers()[layer];
  Block block = Block::Whole(param.shape);
  if (!runs_on_[layer][part]) return Block::Rows(param.shape, 0, 0);
  const bool by_inputs = entry.channel_use() == ChannelUse::kSplitInput;
  if (!by_inputs && layout_of_[entry.tops[0]] != Layout::kSlice) return block;
  Range range;
  if (by_inputs) {
    // A channel of the input is as many columns as it has pixels.
    const int64_t channels = channels_[entry.bottoms[0]];
    const int64_t pixels = (param.transposed ? block.rows() : block.cols()) / channels;
    const Range inputs = PartOf(channels, part, distinct_parts(stage_of(layer)));
    range = {inputs.begin * pixels, inputs.end * pixels};
  } else {
    range = ChannelsOn(entry.tops[0], part);
  }
  if (by_inputs != param.transposed) {
    block.begin_col = range.begin, block.end_col = range.end;
  } else {
    block.begin_row = range.begin, block.end_row = range.end;
  }
  return block;
}

// --- Layers

// Which layers have, in their stage, a divided layer above them. Those run on all shards even where they need whole
// blobs, so that no shard waits for the lead.
std::vector<bool> Placement::FeedsProduct() const {
  const auto& layers = graph_->layers();
  std::vector<bool> feeds(layers.size(), false);
  for (int i = static_cast<int>(layers.size()) - 1; i >= 0; --i) {
    for (int top : layers[i].tops) {
      for (int consumer : graph_->blobs()[top].consumers) {
        if (stage_of(consumer) != stage_of(i)) continue;
        const ChannelUse use = layers[consumer].channel_use();
        const bool product = use == ChannelUse::kSplitInput || use == ChannelUse::kSplitOutput;
        const bool divided = product && layout_.SplitOf(layers[consumer].order) != LayerSplit::kNone;
        feeds[i] = feeds[i] || divided || feeds[consumer];
      }
    }
  }
  return feeds;
}

// Of a layer of a sharded stage. What works channel by channel keeps the layout of what it reads. Everything else needs
// whole blobs: on all shards if a divided layer lies above, else (losses above all) on the lead shard.
StatusOr<Layout> Placement::LayoutOfTops(int layer, bool feeds_product) const {
  const GraphLayer& entry = graph_->layers()[layer];
  const ChannelUse use = entry.channel_use();
  if (use == ChannelUse::kSplitInput) return Layout::kPartial;
  if (use == ChannelUse::kSum || entry.piece == GraphLayer::kScatter) return Layout::kSlice;
  if (entry.piece == GraphLayer::kClasses) return Layout::kSlice;
  if (entry.piece == GraphLayer::kMerged) {
    // What all shards compute alike, a loss, is whole.
    if (entry.traits.class_split()->on_one_shard) return Layout::kLead;
    return entry.is_statistic() ? Layout::kWhole : Layout::kSlice;
  }
  if (use == ChannelUse::kSplitOutput) {
    return layout_.SplitOf(entry.order) == LayerSplit::kNone ? Layout::kLead : Layout::kSlice;
  }
  // No parameter, learning or not, is kept twice within a stage.
  const int shards = layout_.stages[stage_of(layer)].parts();
  const bool has_params = entry.traits.blobs() > 0;
  if (has_params && entry.traits.has_small_blobs()) return Layout::kLead;
  if (has_params || (entry.source && feeds_product)) {
    return InvalidArgument("layer \"%s\" (%s) %s a stage of %d shards: only InnerProduct of axis 1 is split",
                           NameOf(layer).c_str(), entry.param->type().c_str(),
                           has_params ? "has parameters and can't be in" : "can't be in", shards);
  }
  bool slices = use == ChannelUse::kElementwise, lead = false;
  for (size_t i = 0; i < entry.bottoms.size(); ++i) {
    if (entry.is_label(i)) continue;
    const int bottom = entry.bottoms[i];
    const bool here = stage_of(graph_->blobs()[bottom].producer) == stage_of(layer);
    slices &= here && layout_of_[bottom] == Layout::kSlice;
    lead |= here && layout_of_[bottom] == Layout::kLead;
  }
  if (slices) return Layout::kSlice;
  return lead || !feeds_product ? Layout::kLead : Layout::kWhole;
}

Status Placement::PlaceLayers() {
  const auto& layers = graph_->layers();
  const std::vector<bool> feeds_product = FeedsProduct();
  const int count = static_cast<int>(layers.size());
  layout_of_.assign(graph_->blobs().size(), Layout::kWhole);
  on_slices_.assign(count, false);
  lead_.assign(count, false);
  for (int i = 0; i < count; ++i) {
    const int stage = stage_of(i);
    runs_on_.emplace_back(distinct_parts(stage), true);
    if (!sharded(stage)) continue;
    HP_ASSIGN_OR_RETURN(const Layout tops, LayoutOfTops(i, feeds_product[i]));
    for (int top : layers[i].tops) layout_of_[top] = tops;
    lead_[i] = tops == Layout::kLead;
    on_slices_[i] = tops == Layout::kSlice && layers[i].channel_use() == ChannelUse::kElementwise;
    // Where there are fewer channels than shards, some shards have nothing to do.
    const bool by_inputs = tops == Layout::kPartial;
    const int64_t divided = channels_[by_inputs ? layers[i].bottoms[0] : layers[i].tops[0]];
    for (int part = 0; part < distinct_parts(stage); ++part) {
      if (lead_[i]) runs_on_[i][part] = part == 0;
      if (by_inputs || tops == Layout::kSlice) {
        runs_on_[i][part] = !PartOf(divided, part, distinct_parts(stage)).empty();
      }
    }
  }
  return OkStatus();
}

// --- Edges

// How a layer needs a blob that it reads.
Layout Placement::NeedOf(int layer, int bottom) const {
  if (!sharded(stage_of(layer))) return Layout::kWhole;
  if (lead_[layer]) return Layout::kLead;
  const GraphLayer& entry = graph_->layers()[layer];
  const ChannelUse use = entry.channel_use();
  if (entry.piece == GraphLayer::kMerged) return bottom == entry.bottoms[0] ? Layout::kSlice : Layout::kWhole;
  const bool slice = on_slices_[layer] || entry.piece == GraphLayer::kClasses || use == ChannelUse::kSplitInput ||
                     use == ChannelUse::kSum;
  return slice ? Layout::kSlice : Layout::kWhole;
}

bool Placement::ReadsLocally(int layer, int bottom) const {
  if (stage_of(graph_->blobs()[bottom].producer) != stage_of(layer)) return false;
  const Layout has = layout_of_[bottom], need = NeedOf(layer, bottom);
  return has == need || (has == Layout::kWhole && need == Layout::kLead);
}

// A stage that needs a blob whole on all its shards has it on the lead as well.
void Placement::FindEdges() {
  const auto& blobs = graph_->blobs();
  for (int b = 0; b < static_cast<int>(blobs.size()); ++b) {
    if (blobs[b].label) continue;
    std::map<std::pair<int, Layout>, std::vector<int>> readers;
    for (int consumer : blobs[b].consumers) {
      if (!ReadsLocally(consumer, b)) readers[{stage_of(consumer), NeedOf(consumer, b)}].push_back(consumer);
    }
    for (auto& [key, consumers] : readers) {
      const auto whole = readers.find({key.first, Layout::kWhole});
      if (key.second != Layout::kLead || whole == readers.end()) continue;
      whole->second.insert(whole->second.end(), consumers.begin(), consumers.end());
      consumers.clear();
    }
    for (const auto& [key, consumers] : readers) {
      if (!consumers.empty()) AddEdge(b, key.first, key.second, consumers);
    }
  }
}

void Placement::AddEdge(int blob, int to_stage, Layout need, const std::vector<int>& consumers) {
  Edge edge;
  edge.blob = blob;
  edge.from_stage = stage_of(graph_->blobs()[blob].producer);
  edge.to_stage = to_stage;
  edge.from = layout_of_[blob];
  edge.to = need;
  const int parts = distinct_parts(to_stage);
  for (int part = 0; part < parts; ++part) {
    const bool runs = std::any_of(consumers.begin(), consumers.end(), [&](int layer) { return runs_on_[layer][part]; });
    const bool nothing = need == Layout::kSlice && PartOf(channels_[blob], part, parts).empty();
    edge.reads.push_back(runs && !nothing);
  }
  edge.gradient.assign(parts, false);
  edge.element = ElementOf(edge);
  edges_.push_back(std::move(edge));
}

ElementType Placement::ElementOf(const Edge& edge) const {
  const GraphBlob& blob = graph_->blobs()[edge.blob];
  const GraphLayer& producer = graph_->layers()[blob.producer];
  const bool of_classes = producer.piece == GraphLayer::kClasses || producer.piece == GraphLayer::kMerged;
  const bool exact = edge.summed() || of_classes || producer.is_statistic() || edge.local() || !blob.activation;
  return exact ? ElementType::kFloat32 : layout_.wire;
}

ElementType Placement::ElementAt(int blob) const {
  const bool rounded = std::any_of(edges_.begin(), edges_.end(), [blob](const Edge& edge) {
    return edge.blob == blob && edge.element != ElementType::kFloat32;
  });
  return rounded ? layout_.wire : ElementType::kFloat32;
}

Range Placement::PieceOf(const Edge& edge, int writer, int reader) const {
  if (!edge.reads[reader]) return {};
  // Of those that have the whole, one writes: the first, or within a stage each for itself.
  if (edge.from == Layout::kWhole && writer != (edge.within_stage() ? reader : 0)) return {};
  const bool slice = edge.to == Layout::kSlice;
  const int64_t channels = channels_[edge.blob];
  return Intersection(ChannelsOn(edge.blob, writer),
                      slice ? PartOf(channels, reader, distinct_parts(edge.to_stage)) : Range{0, channels});
}

std::vector<EdgePiece> Placement::PiecesTo(const Edge& edge, int reader) const {
  std::vector<EdgePiece> pieces;
  for (int writer = 0; writer < distinct_parts(edge.from_stage); ++writer) {
    const Range channels = PieceOf(edge, writer, reader);
    if (!channels.empty()) pieces.push_back({writer, reader, channels, edge.gradient[reader]});
  }
  return pieces;
}

std::vector<EdgePiece> Placement::PiecesFrom(const Edge& edge, int writer) const {
  std::vector<EdgePiece> pieces;
  for (int reader = 0; reader < distinct_parts(edge.to_stage); ++reader) {
    const Range channels = PieceOf(edge, writer, reader);
    if (!channels.empty()) pieces.push_back({writer, reader, channels, edge.gradient[reader]});
  }
  return pieces;
}

int Placement::EdgeOf(int layer, int bottom) const {
  const Layout need = NeedOf(layer, bottom);
  for (size_t i = 0; i < edges_.size(); ++i) {
    const Edge& edge = edges_[i];
    const bool serves = edge.to == need || (edge.to == Layout::kWhole && need == Layout::kLead);
    if (edge.blob == bottom && edge.to_stage == stage_of(layer) && serves) return static_cast<int>(i);
  }
  return -1;
}

void Placement::FindLevels() {
  for (int i = 0; i < static_cast<int>(graph_->layers().size()); ++i) {
    const GraphLayer& entry = graph_->layers()[i];
    int level = 0;
    for (size_t k = 0; k < entry.bottoms.size(); ++k) {
      if (entry.is_label(k)) continue;  // labels go ahead of the pipelines
      const int bottom = entry.bottoms[k], below = level_of_[graph_->blobs()[bottom].producer];
      const bool crosses = !ReadsLocally(i, bottom) && !edges_[EdgeOf(i, bottom)].local();
      level = std::max(level, below + (crosses ? 1 : 0));
    }
    level_of_.push_back(level);
  }
}

// --- Gradients

// From the losses down: a layer computes gradients on a node if it is a loss there or one of its tops has a gradient
// there; a blob has one where a local reader computes it or where a reader behind an edge sends it back.
void Placement::FollowGradients() {
  const auto& layers = graph_->layers();
  const auto& blobs = graph_->blobs();
  gradient_.resize(blobs.size());
  backpropagates_.resize(layers.size());
  for (int i = static_cast<int>(layers.size()) - 1; i >= 0; --i) {
    const int parts = distinct_parts(stage_of(i));
    backpropagates_[i].assign(parts, false);
    for (int top : layers[i].tops) {
      FollowBlob(top);
      for (int part = 0; part < parts; ++part) {
        if (runs_on_[i][part] && gradient_[top][part]) backpropagates_[i][part] = true;
      }
    }
    const bool loss = layers[i].is_statistic() && layers[i].traits.loss_weight(0) != 0;
    if (loss && blobs[layers[i].tops[0]].needs_gradient) backpropagates_[i] = runs_on_[i];
  }
}

void Placement::FollowBlob(int b) {
  const GraphBlob& blob = graph_->blobs()[b];
  gradient_[b].assign(distinct_parts(stage_of(blob.producer)), false);
  if (!blob.needs_gradient) return;
  for (int consumer : blob.consumers) {
    if (!graph_->SendsGradient(consumer, b)) continue;
    const bool local = ReadsLocally(consumer, b);
    if (local) {
      for (size_t part = 0; part < gradient_[b].size(); ++part) {
        if (backpropagates_[consumer][part]) gradient_[b][part] = true;
      }
      continue;
    }
    Edge& edge = edges_[EdgeOf(consumer, b)];
    for (size_t part = 0; part < edge.gradient.size(); ++part) {
      if (edge.reads[part] && backpropagates_[consumer][part]) edge.gradient[part] = true;
    }
  }
  for (const Edge& edge : edges_) {
    if (edge.blob != b) continue;
    for (int part = 0; part < static_cast<int>(gradient_[b].size()); ++part) {
      for (const EdgePiece& piece : PiecesFrom(edge, part)) {
        if (piece.gradient) gradient_[b][part] = true;
      }
    }
  }
}

}  // namespace hp
