#pragma once

#include "base/block.h"
#include "base/range.h"
#include "hp/status.h"
#include "net/plan/placement.h"
#include "net/plan/port_plan.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hp {

/// A layer as one node runs it.
struct LayerPlan {
  int layer = 0;  ///< index into NetGraph::layers()
  int segment = 0;
  bool backward = false;  ///< computes gradients on this node
  bool learns = false;    ///< ... those of its parameters too
  /// The gradient of its parameters is computed in one go over all rows of the update, instead of per micro-batch.
  bool deferred = false;
  /// ... or per micro-batch by the backward pass itself, instead of in a task of its own: in data-parallel stages,
  /// where nobody waits for the input's gradient alone.
  bool in_backward = false;
  Range channels;  ///< of its output, that this node computes
};

/// A blob of parameters as one node holds it.
struct ParamPlan {
  std::string layer;
  int blob = 0;    ///< among the layer's blobs, in Caffe's order
  ParamSpec spec;  ///< of the whole blob
  Block block;     ///< what of it lies on this node
};

/// The part of one phase's net that one part of a stage runs: which layers in which segments, what crosses to other
/// nodes and when, which parameters it holds. A pure function of graph, placement and batch, which every node can
/// compute for every other: the net's builder, the pipeline, checks and snapshots all read it. Knows no op and no
/// backend. Immutable; any thread.
///
/// A segment is a run of layers between two exchange points. A layer's segment is the greatest of those that its inputs
/// come from, one more where an input has to be gathered from the node's fellow shards; forward passes go up the
/// segments, backward passes down.
class NodePlan {
 public:
  struct Options {
    StagePart part = {};
    Shape sample = {};  ///< [C, H, W] of one record after its transformation
    /// Samples of one update that pass through this node, where weight gradients may be deferred; 0: never deferred.
    int64_t update_rows = 0;
  };
  /// @param graph,placement must outlive the plan. @return kInvalidArgument: shapes that do not fit, naming the layer.
  static StatusOr<NodePlan> Create(const NetGraph& graph, const Placement& placement, const Options& options);

  const NetGraph& graph() const { return *graph_; }
  const Placement& placement() const { return *placement_; }
  const StagePart& part() const { return options_.part; }
  /// Whether the node is one of several alike, each with rows of its own.
  bool data_parallel() const { return placement_->layout().stages[part().stage].data_parallel; }
  const Shape& sample() const { return options_.sample; }
  int64_t update_rows() const { return options_.update_rows; }

  int segments() const { return segments_; }
  /// In the order of the net; sources included.
  const std::vector<LayerPlan>& layers() const { return layers_; }
  /// The plan of a layer that runs here; null: it does not.
  const LayerPlan* FindLayer(int layer) const;
  /// Leaving and landing ones, values and gradients: a pipeline knows them by their index here.
  const std::vector<PortPlan>& ports() const { return ports_; }
  /// In the order of the layers, and of each layer's blobs.
  const std::vector<ParamPlan>& params() const { return params_; }
  /// Layers that learn here, as indices into layers(): in the order in which a forward pass meets them.
  const std::vector<int>& learning_layers() const { return learning_layers_; }

  /// Whether this node makes what crosses the edge: its slice of it, or all.
  bool Writes(const Edge& edge) const;
  bool has_backward(int segment) const;
  bool reads_images() const;
  bool reads_labels(int segment) const;
  /// Whether some layer of it counts the labels of the whole batch.
  bool needs_batch_labels(int segment) const;

 private:
  NodePlan(const NetGraph& graph, const Placement& placement, const Options& options)
      : graph_(&graph), placement_(&placement), options_(options) {}

  void PlaceLayer(int layer);
  void AddParams();
  void AddLeavingPorts();
  void AddLandingPorts();
  void AddPort(const PortPlan& port, int other_stage);
  void FindLearningLayers();
  bool CanBeDeferred(int layer) const;
  int SegmentOfInput(int layer, int bottom) const;
  int LandingSegment(int edge) const;
  int64_t RowBytes(int edge, int writer) const;
  bool IsImages(int blob) const;
  /// Parts that differ from each other are told apart; all replicas look like part 0.
  int distinct_part() const { return data_parallel() ? 0 : part().index; }

  const NetGraph* graph_;
  const Placement* placement_;
  Options options_;
  std::vector<Shape> shapes_;  // of the whole net's blobs, for one sample
  std::map<int, int> places_;  // layer -> index into layers_
  int segments_ = 1;
  std::vector<LayerPlan> layers_;
  std::vector<PortPlan> ports_;
  std::vector<ParamPlan> params_;
  std::vector<int> learning_layers_;
};

}  // namespace hp
