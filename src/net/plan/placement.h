#pragma once

#include "base/rank.h"
#include "hp/status.h"
#include "net/plan/graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

/// The stages of a table, reduced to what a placement needs.
struct StageLayout {
  struct Stage {
    bool data_parallel = false;  ///< its parts are replicas; else they are shards
    std::vector<Rank> ranks;     ///< by part: index of the replica or shard

    /// Number of replicas or shards.
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

/// How a blob's channels are spread over the nodes of the stage that makes it. A stage with one shard has kAll only.
enum class Spread {
  kAll,    ///< whole on every node of the stage; each replica has its own rows
  kSlice,  ///< shard j of k holds channels [n*j/k, n*(j+1)/k)
  kLead,   ///< whole on shard 0 only
};

/// A blob that crosses between nodes: from the stage that makes it to a stage that reads it, or within an FC stage from
/// the slices of its shards to the shards that need it whole. "Edge e" is the same one on all nodes.
struct Edge {
  int blob = 0;                       ///< index into NetGraph::blobs()
  int from_stage = 0, to_stage = 0;   ///< equal: a gather within an FC stage
  int parts = 1;                      ///< writers: every shard with its slice, or one (of replicas: each for its rows)
  int readers = 1;                    ///< parts of to_stage that read it: all of them, or shard 0 alone
  std::vector<bool> reader_gradient;  ///< by reader: whether it sends its part of the gradient back

  bool within_stage() const { return from_stage == to_stage; }
  /// Whether any reader sends a gradient.
  bool any_gradient() const;
};

/// How one phase of a net lies on the stages of a table: which layers run on which nodes, which blobs cross between
/// nodes, and which gradients return. A function of net and table alone, so all nodes agree on it. Immutable; any
/// thread. Source of the scheme (convolutions data-parallel, FC layers model-parallel): Krizhevsky 2014,
/// arXiv:1404.5997.
class Placement {
 public:
  /// @param graph must outlive the placement. @param layout copied; must give every layer of the graph a stage.
  /// @return kInvalidArgument, naming the layer: it reads a blob of a later stage, or has parameters that shards can't
  /// divide.
  static StatusOr<Placement> Create(const NetGraph& graph, const StageLayout& layout);

  // A layer or blob is given by its index in the graph, a part by its index in the stage.
  const StageLayout& layout() const { return layout_; }
  /// In the order of blobs, then of the stages that read them.
  const std::vector<Edge>& edges() const { return edges_; }
  int stage_of(int layer) const { return layout_.stage_of_layer[graph_->layers()[layer].order]; }
  Spread spread(int blob) const { return spread_[blob]; }
  /// Whether `layer` runs on part `part` of its stage: on all parts, or on part 0 alone.
  bool RunsOn(int layer, int part) const { return runs_on_all_[layer] || part == 0; }
  /// Whether the layer reads `bottom` (a blob) as it lies on its own node, whole or as the shard's slice, and not by an
  /// edge.
  bool ReadsLocally(int layer, int bottom) const;
  /// The index of the edge by which stage `to_stage` receives `blob`; -1: there is none.
  int FindEdge(int blob, int to_stage) const;
  /// Whether the layer computes gradients on part `part` of its stage. All replicas are alike: for them part is 0.
  bool Backpropagates(int layer, int part) const { return backpropagates_[layer][part]; }

 private:
  Placement(const NetGraph& graph, const StageLayout& layout) : graph_(&graph), layout_(layout) {}
  bool sharded(int stage) const { return !layout_.stages[stage].data_parallel && layout_.stages[stage].parts() > 1; }
  /// Number of parts that differ in what they run: shards do, replicas do not.
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
