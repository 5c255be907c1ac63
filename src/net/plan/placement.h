#pragma once

#include "base/block.h"
#include "base/element_type.h"
#include "base/range.h"
#include "base/rank.h"
#include "base/sample_shape.h"
#include "hp/status.h"
#include "net/plan/graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

/// How a layer that shards can divide is divided.
enum class LayerSplit {
  kOutputs,  ///< each shard computes its outputs from the whole input
  kInputs,   ///< each shard computes a part of all outputs from its inputs, and the sum of its outputs
  kNone,     ///< shard 0 has all of it
};

/// The stages of a table, reduced to what a placement needs.
struct StageLayout {
  struct Stage {
    bool data_parallel = false;  ///< its parts are replicas; else they are shards
    std::vector<Rank> ranks;     ///< by part: index of the replica or shard
    bool scattered = false;      ///< shards: each gets a slice of what comes in, and they gather it
    bool served = false;         ///< replicas: parameter servers update what they learn
    std::string name = {};       ///< in the table, for messages

    /// Number of replicas or shards.
    int parts() const { return static_cast<int>(ranks.size()); }
    bool sharded() const { return !data_parallel && parts() > 1; }
  };
  std::vector<Stage> stages;
  std::vector<int> stage_of_layer;           ///< by index among the layers of the unfiltered prototxt
  std::vector<LayerSplit> split_of_layer;    ///< likewise; empty: all by outputs
  ElementType wire = ElementType::kFloat32;  ///< of activations and their gradients on the network (Edge::element)

  /// Of layer `order` of the unfiltered prototxt.
  LayerSplit SplitOf(int order) const { return split_of_layer.empty() ? LayerSplit::kOutputs : split_of_layer[order]; }
};

/// What a node does for one stage: replica or shard `index` of it.
struct StagePart {
  int stage = 0;
  int index = 0;

  bool operator==(const StagePart&) const = default;
};

/// How a blob lies on the parts of a stage. A stage with one shard, and each replica, has kWhole only.
enum class Layout {
  kWhole,    ///< all of it on every part; of replicas each has its own rows
  kSlice,    ///< shard j of k holds channels PartOf(channels, j, k), which may be none
  kPartial,  ///< shards hold addends of all of it; nobody reads them but a sum, slice by slice
  kLead,     ///< all of it on shard 0
};

/// Channels of a blob that cross from one part of a stage to one part of a stage, itself perhaps.
struct EdgePiece {
  int writer = 0;         ///< part of the stage that makes the blob; 0 where it is a replica: each writes its rows
  int reader = 0;         ///< part of the stage that reads it; 0 where it is a replica: each reads its rows
  Range channels;         ///< of the whole blob; not empty
  bool gradient = false;  ///< whether the reader sends their gradient back
};

/// A blob that crosses between parts: from the stage that makes it to a stage that reads it, or within an FC stage from
/// how its shards have it to how they need it. "Edge e" is the same one on all nodes.
struct Edge {
  int blob = 0;                                       ///< index into NetGraph::blobs()
  int from_stage = 0, to_stage = 0;                   ///< equal: within an FC stage
  Layout from = Layout::kWhole, to = Layout::kWhole;  ///< how its writers have it and its readers then have it
  std::vector<bool> reads, gradient;  ///< by part of to_stage: whether it reads, and whether it sends a gradient back
  /// As its pieces and their gradients cross, each rounded once, by who makes it; all readers get that, the one on the
  /// writer's node too. StageLayout::wire for activations (GraphBlob::activation); float32 for data, for addends, which
  /// are rounded when they are a sum, and for the numbers that shards tell each other of their classes.
  ElementType element = ElementType::kFloat32;

  bool within_stage() const { return from_stage == to_stage; }
  /// Whether the pieces of a reader are addends of the same channels; else they lie side by side.
  bool summed() const { return from == Layout::kPartial; }
  /// Whether nothing crosses the network: each shard takes its slice of its own whole.
  bool local() const { return within_stage() && from == Layout::kWhole; }
};

/// How one phase of a net lies on the stages of a table: which layers run on which nodes, which blobs cross between
/// nodes, and which gradients return. A function of net and table alone, so all nodes agree on it. Immutable; any
/// thread. Source of the scheme (convolutions data-parallel, FC layers model-parallel): Krizhevsky 2014,
/// arXiv:1404.5997.
class Placement {
 public:
  /// @param graph made with the cuts of the layout (net/plan/cuts.h); must outlive the placement.
  /// @param layout copied; must give every layer of the graph a stage.
  /// @return kInvalidArgument, naming the layer: shapes that do not fit, or parameters that shards can't divide.
  static StatusOr<Placement> Create(const NetGraph& graph, const SampleShape& sample, const StageLayout& layout);

  // A layer or blob is given by its index in the graph, a part by its index in the stage; replicas are alike and count
  // as part 0.
  const StageLayout& layout() const { return layout_; }
  /// In the order of blobs, then of the stages that read them.
  const std::vector<Edge>& edges() const { return edges_; }
  int stage_of(int layer) const { return layout_.stage_of_layer[graph_->layers()[layer].order]; }
  /// The channels of a blob (axis 1; of a vector its one element) that lie on a part of its stage; of a kPartial one
  /// those that it has addends of. Empty: none of it lies there.
  Range ChannelsOn(int blob, int part) const;
  /// What a part of its stage holds of a parameter of `layer`: of weights whose inputs are divided some columns, else
  /// some rows or all; of transposed ones (ParamSpec) the other way round. Empty where the layer does not run.
  Block BlockOn(int layer, int part, const ParamSpec& param) const;
  /// Whether `layer` runs on part `part` of its stage.
  bool RunsOn(int layer, int part) const { return runs_on_[layer][part]; }
  /// How many exchanges between nodes or shards lie before a layer on the longest way to it. Layers of a level on one
  /// node can run one behind the other without waiting for a peer.
  int level_of(int layer) const { return level_of_[layer]; }
  /// How a blob lies on the parts of its stage.
  Layout layout_of(int blob) const { return layout_of_[blob]; }
  /// Whether the layer reads `bottom` (a blob) as it lies on its own node, and not by an edge.
  bool ReadsLocally(int layer, int bottom) const;
  /// As the layers of its own stage read a blob that has other readers: what crosses is rounded for these as well.
  ElementType ElementAt(int blob) const;
  /// What crosses an edge to one reader, by writer, and from one writer, by reader.
  std::vector<EdgePiece> PiecesTo(const Edge& edge, int reader) const;
  std::vector<EdgePiece> PiecesFrom(const Edge& edge, int writer) const;
  /// The index of the edge by which a layer that does not read `bottom` locally gets it.
  int EdgeOf(int layer, int bottom) const;
  /// Whether the layer computes gradients on part `part` of its stage.
  bool Backpropagates(int layer, int part) const { return backpropagates_[layer][part]; }
  /// Number of parts of a stage that differ in what they run: shards do, replicas do not.
  int distinct_parts(int stage) const {
    return layout_.stages[stage].data_parallel ? 1 : layout_.stages[stage].parts();
  }

 private:
  Placement(const NetGraph& graph, const std::vector<Shape>& shapes, const StageLayout& layout);
  bool sharded(int stage) const { return layout_.stages[stage].sharded(); }
  const std::string& NameOf(int layer) const { return graph_->layers()[layer].param->name(); }
  Layout NeedOf(int layer, int bottom) const;
  Range PieceOf(const Edge& edge, int writer, int reader) const;
  std::vector<bool> FeedsProduct() const;
  StatusOr<Layout> LayoutOfTops(int layer, bool feeds_product) const;
  Status PlaceLayers();
  void FindEdges();
  void AddEdge(int blob, int to_stage, Layout need, const std::vector<int>& consumers);
  ElementType ElementOf(const Edge& edge) const;
  void FindLevels();
  void FollowGradients();
  void FollowBlob(int blob);

  const NetGraph* graph_;
  StageLayout layout_;
  std::vector<int64_t> channels_;           // by blob
  std::vector<Layout> layout_of_;           // by blob
  std::vector<bool> on_slices_, lead_;      // by layer: works channel by channel on slices; runs on shard 0 alone
  std::vector<std::vector<bool>> runs_on_;  // [layer][distinct part]
  std::vector<int> level_of_;               // by layer
  std::vector<Edge> edges_;
  std::vector<std::vector<bool>> gradient_;        // [blob][distinct part of its stage]
  std::vector<std::vector<bool>> backpropagates_;  // [layer][distinct part]
};

}  // namespace hp
