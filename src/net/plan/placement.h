#pragma once

#include "base/rank.h"
#include "hp/status.h"
#include "net/plan/graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

/// The stages of a table, as the net sees them.
struct StageLayout {
  struct Stage {
    bool data_parallel = false;
    std::vector<Rank> ranks;  ///< of its replicas or shards

    int parts() const { return static_cast<int>(ranks.size()); }
  };
  std::vector<Stage> stages;
  std::vector<int> stage_of_layer;  ///< by index among the layers of the unfiltered prototxt
};

/// What a node does for one stage: replica or shard `index` of it.
struct StagePart {
  int stage = 0;
  int index = 0;

  bool operator==(const StagePart&) const = default;
};

/// Where a blob's channels are within the stage that makes it.
enum class Spread {
  kAll,    ///< whole on every node that has it (each replica its own rows)
  kSlice,  ///< shard j of k holds channels [n*j/k, n*(j+1)/k)
  kLead,   ///< whole on shard 0 only
};

/// A blob that crosses between nodes: from the stage that makes it to a stage that reads it, or within an FC stage from
/// the slices of its shards to those that need it whole. Numbered alike on all nodes.
struct Edge {
  int blob = 0;
  int from_stage = 0, to_stage = 0;
  int parts = 1;                      ///< writers: one, or every shard with its slice
  int readers = 1;                    ///< parts of to_stage that read it: all, or shard 0 alone
  std::vector<bool> reader_gradient;  ///< which readers send a gradient back

  bool within_stage() const { return from_stage == to_stage; }
  bool any_gradient() const;
};

/// How one phase of a net lies on the stages of a table: what runs where, which blobs cross, which gradients return.
/// A function of net and table alone, so all nodes agree on it. Immutable.
class Placement {
 public:
  /// @return kInvalidArgument naming the layer that can't be placed.
  static StatusOr<Placement> Create(const NetGraph& graph, const StageLayout& layout);

  const StageLayout& layout() const { return layout_; }
  const std::vector<Edge>& edges() const { return edges_; }
  int stage_of(int layer) const { return layout_.stage_of_layer[graph_->layers()[layer].order]; }
  Spread spread(int blob) const { return spread_[blob]; }
  /// Whether `layer` runs on part `part` of its stage.
  bool RunsOn(int layer, int part) const { return runs_on_all_[layer] || part == 0; }
  /// Whether the layer sees its bottom as the slice that this shard holds, not through an edge.
  bool ReadsLocally(int layer, int bottom) const;
  /// The edge by which stage `to_stage` receives `blob`, or -1.
  int FindEdge(int blob, int to_stage) const;
  /// Whether the layer computes gradients on part `part` of its stage.
  bool Backpropagates(int layer, int part) const { return backpropagates_[layer][part]; }

 private:
  Placement(const NetGraph& graph, const StageLayout& layout) : graph_(&graph), layout_(layout) {}
  bool sharded(int stage) const { return !layout_.stages[stage].data_parallel && layout_.stages[stage].parts() > 1; }
  /// Nodes of a stage that differ from each other: shards do, replicas do not.
  int distinct_parts(int stage) const {
    return layout_.stages[stage].data_parallel ? 1 : layout_.stages[stage].parts();
  }
  Status PlaceLayers();
  void FindEdges();
  void FollowGradients();

  const NetGraph* graph_;
  StageLayout layout_;
  std::vector<bool> runs_on_all_, slicewise_;  // by layer
  std::vector<Spread> spread_;                 // by blob
  std::vector<Edge> edges_;
  std::vector<std::vector<bool>> gradient_;        // [blob][part of its stage]
  std::vector<std::vector<bool>> backpropagates_;  // [layer][part of its stage]
};

}  // namespace hp
