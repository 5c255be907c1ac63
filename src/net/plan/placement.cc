// Three passes: PlaceLayers decides for each layer of a sharded stage whether it runs on all shards, on its shard's
// slice or on shard 0 alone, and so how its tops are spread; FindEdges lists the blobs that some reader can't read
// where it is; FollowGradients goes from the losses down and marks which layers compute gradients on which part, and
// which readers of an edge send one back. Stages that are not sharded have whole blobs everywhere, and only edges to
// other stages.
#include "net/plan/placement.h"

#include <algorithm>
#include <map>

namespace hp {

bool Edge::any_gradient() const {
  return std::any_of(reader_gradient.begin(), reader_gradient.end(), [](bool b) { return b; });
}

StatusOr<Placement> Placement::Create(const NetGraph& graph, const StageLayout& layout) {
  Placement placement(graph, layout);
  HP_RETURN_IF_ERROR(placement.PlaceLayers());
  placement.FindEdges();
  placement.FollowGradients();
  return placement;
}

// A layer of a sharded stage runs on all shards if an InnerProduct of the stage lies above it, or on its shard's slice
// if it works channel by channel; everything else, losses above all, runs on the lead shard.
Status Placement::PlaceLayers() {
  const auto& layers = graph_->layers();
  const auto& blobs = graph_->blobs();
  const int count = static_cast<int>(layers.size());
  std::vector<bool> feeds_product(count, false);
  for (int i = count - 1; i >= 0; --i) {
    for (int top : layers[i].tops) {
      for (int consumer : blobs[top].consumers) {
        if (stage_of(consumer) != stage_of(i)) continue;
        const bool product = layers[consumer].traits.channel_use() == ChannelUse::kSplitOutput;
        if (product || feeds_product[consumer]) feeds_product[i] = true;
      }
    }
  }
  runs_on_all_.assign(count, true);
  slicewise_.assign(count, false);
  spread_.assign(blobs.size(), Spread::kAll);
  for (int i = 0; i < count; ++i) {
    const int stage = stage_of(i);
    const char* name = layers[i].param->name().c_str();
    for (int bottom : layers[i].bottoms) {
      if (stage_of(blobs[bottom].producer) > stage) {
        return InvalidArgument("layer \"%s\" is in stage %d but reads \"%s\" of the later stage %d", name, stage,
                               blobs[bottom].name.c_str(), stage_of(blobs[bottom].producer));
      }
    }
    if (!sharded(stage)) continue;
    Spread result = Spread::kAll;
    const ChannelUse use = layers[i].traits.channel_use();
    bool on_slices = use == ChannelUse::kElementwise;
    for (int bottom : layers[i].bottoms) {
      if (blobs[bottom].label) continue;
      on_slices &= stage_of(blobs[bottom].producer) == stage && spread_[bottom] == Spread::kSlice;
    }
    if (use == ChannelUse::kSplitOutput || on_slices) {
      result = Spread::kSlice;
      slicewise_[i] = on_slices;
    } else if (!feeds_product[i]) {
      result = Spread::kLead;
      runs_on_all_[i] = false;
    } else if (layers[i].learns || layers[i].source) {
      return InvalidArgument("layer \"%s\" (%s) can't be in a stage of %d shards: only InnerProduct is split", name,
                             layers[i].param->type().c_str(), layout_.stages[stage].parts());
    }
    if (use != ChannelUse::kSplitOutput && layers[i].learns) {
      return InvalidArgument("layer \"%s\" (%s) has parameters and can't be in a stage of %d shards", name,
                             layers[i].param->type().c_str(), layout_.stages[stage].parts());
    }
    for (int top : layers[i].tops) spread_[top] = result;
  }
  return OkStatus();
}

bool Placement::ReadsLocally(int layer, int bottom) const {
  if (stage_of(graph_->blobs()[bottom].producer) != stage_of(layer)) return false;
  return spread_[bottom] != Spread::kSlice || slicewise_[layer];
}

void Placement::FindEdges() {
  const auto& blobs = graph_->blobs();
  for (int b = 0; b < static_cast<int>(blobs.size()); ++b) {
    if (blobs[b].label) continue;
    std::map<int, bool> readers;  // stage -> whether all its parts read
    for (int consumer : blobs[b].consumers) {
      if (!ReadsLocally(consumer, b)) readers[stage_of(consumer)] |= runs_on_all_[consumer];
    }
    const int home = stage_of(blobs[b].producer);
    for (const auto& [stage, all] : readers) {
      Edge edge;
      edge.blob = b;
      edge.from_stage = home;
      edge.to_stage = stage;
      edge.parts = spread_[b] == Spread::kSlice ? layout_.stages[home].parts() : 1;
      edge.readers = all ? layout_.stages[stage].parts() : 1;
      edges_.push_back(edge);
    }
  }
}

int Placement::FindEdge(int blob, int to_stage) const {
  for (size_t i = 0; i < edges_.size(); ++i) {
    if (edges_[i].blob == blob && edges_[i].to_stage == to_stage) return static_cast<int>(i);
  }
  return -1;
}

// From the losses down: a layer computes gradients on a node if it is a loss there or one of its tops has a gradient
// there; a blob has one where a local reader computes it or where a reader behind an edge sends it back.
void Placement::FollowGradients() {
  const auto& layers = graph_->layers();
  const auto& blobs = graph_->blobs();
  gradient_.resize(blobs.size());
  backpropagates_.resize(layers.size());
  for (size_t b = 0; b < blobs.size(); ++b) gradient_[b].assign(distinct_parts(stage_of(blobs[b].producer)), false);
  for (int i = static_cast<int>(layers.size()) - 1; i >= 0; --i) {
    const int stage = stage_of(i);
    backpropagates_[i].assign(distinct_parts(stage), false);
    for (int top : layers[i].tops) {
      GraphBlob const& blob = blobs[top];
      for (Edge& edge : edges_) {
        if (edge.blob != top) continue;
        edge.reader_gradient.assign(edge.readers, false);
        for (int reader = 0; reader < edge.readers; ++reader) {
          for (int consumer : blob.consumers) {
            if (stage_of(consumer) != edge.to_stage || ReadsLocally(consumer, top) || !RunsOn(consumer, reader))
              continue;
            if (blob.needs_gradient && backpropagates_[consumer][reader]) edge.reader_gradient[reader] = true;
          }
        }
      }
      for (int part = 0; part < distinct_parts(stage); ++part) {
        if (!RunsOn(i, part) || !blob.needs_gradient) continue;
        bool has = false;
        for (int consumer : blob.consumers) {
          has |= ReadsLocally(consumer, top) && RunsOn(consumer, part) && backpropagates_[consumer][part];
        }
        for (const Edge& edge : edges_) {
          const bool writes = edge.blob == top && (edge.parts > 1 || part == 0);
          has |= writes && edge.any_gradient();
        }
        gradient_[top][part] = has;
        if (has) backpropagates_[i][part] = true;
      }
    }
    const LayerTraits& traits = layers[i].traits;
    const bool loss = traits.is_statistic() && traits.loss_weight(0) != 0;
    if (loss && blobs[layers[i].tops[0]].needs_gradient) {
      for (int part = 0; part < distinct_parts(stage); ++part) backpropagates_[i][part] = RunsOn(i, part);
    }
  }
}

}  // namespace hp
