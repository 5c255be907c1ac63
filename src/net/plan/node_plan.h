#pragma once

#include "base/block.h"
#include "base/range.h"
#include "base/sample_shape.h"
#include "base/shared_blob.h"
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
  int layer = 0;          ///< index into NetGraph::layers()
  int segment = 0;        ///< the segment whose tasks run it
  bool backward = false;  ///< computes gradients on this node
  bool learns = false;    ///< computes gradients of its parameters on this node; then backward is true too
  /// No gradient reaches it, and its backward pass adds statistics to its averages all the same, as Caffe's forward
  /// pass does.
  bool only_gathers = false;
  /// The gradients of its parameters are computed in one go over all rows of the update, instead of per micro-batch.
  /// Where the inputs and output gradients of all rows take less memory than the gradient itself.
  bool deferred = false;
  /// They are computed per micro-batch by the backward pass itself, instead of by a task of their own. In data-parallel
  /// stages, where nobody waits for the input's gradient alone.
  bool in_backward = false;
  /// Another layer of its parameter group adds to the gradients as well.
  bool shares = false;
  /// Of its output: those that this node computes, or (kSplitInput) has addends of. Of a piece over classes
  /// (GraphLayer::kClasses, kMerged), or of what reads a sample of classes, the classes that this node has.
  Range channels;
  /// Of a layer whose classes are a sample (GraphLayer::sampled_by), and of those that read them: the most classes that
  /// an update computes here, which are the columns of what lies between them; 0: all of `channels`.
  int64_t sample_room = 0;
  /// Above 0: a test goes over `channels`, classes of a layer with a sample_rate, in blocks of so many. Of that layer
  /// and of the losses and accuracies that read its top, which is in no memory as a whole.
  int64_t class_block = 0;

  /// The columns of its output, or of the classes that it reads, that are in memory at once.
  int64_t columns() const {
    if (sample_room > 0) return sample_room;
    return class_block > 0 ? class_block : channels.size();
  }
};

/// The classes of a block: their outputs for 256 rows are 4 MiB.
constexpr int64_t kClassBlock = 4096;

/// A parameter blob as one node holds it.
struct ParamPlan {
  std::string layer;  ///< name in the prototxt; of the owner, where layers share it
  int blob = 0;       ///< among the layer's blobs, in Caffe's order
  /// The entry of NetGraph::layers() that reads it; of several, the first. If it is of a parameter group, the first
  /// entry of that: equal entries mean one group.
  int graph_layer = 0;
  ParamSpec spec;           ///< of the whole blob, all shards together
  Block block;              ///< what this node holds of it
  int64_t sample_room = 0;  ///< LayerPlan::sample_room: the rows of its gradient; 0: those of `block`
  /// The other blobs of the graph that are this parameter, in the order of the layers.
  std::vector<SharedBlob> users = {};
};

/// What one node runs of one phase's net: which layers in which segments, which tensors cross to and from other nodes
/// and when, and which parameters it holds. A pure function of graph, placement and options, so every node can compute
/// it for every other one. It needs no op and no backend.
///
/// A segment is a group of layers that can run without waiting for a peer in between: all its inputs from other nodes
/// arrive before it, all its outputs leave after it. The layers of one level (Placement::level_of) are a segment; the
/// levels that a node has are counted from 0. Forward passes go up the segments, backward passes down.
///
/// A value: copy it. Immutable; any thread.
class NodePlan {
 public:
  struct Options {
    std::vector<StagePart> parts = {{}};  ///< what the node runs: replicas and shards of different stages
    SampleShape sample = {};
    /// Samples of one update; 0: weight gradients are never deferred (tests).
    int64_t update_rows = 0;
    /// Of a parameter server, which runs no layer: what it holds of others' parameters. Else empty.
    std::vector<ParamPlan> served = {};
  };
  /// @param graph,placement must outlive the plan and its copies.
  /// @return kInvalidArgument, naming the layer: shapes that do not fit, parameters that can't be shared (CheckShared),
  /// or a sample of classes that would cross.
  static StatusOr<NodePlan> Create(const NetGraph& graph, const Placement& placement, const Options& options);

  const NetGraph& graph() const { return *graph_; }
  const Placement& placement() const { return *placement_; }
  const std::vector<StagePart>& parts() const { return options_.parts; }
  /// The index in parts() of the one of `stage`; -1: the node runs nothing of it.
  int FindPart(int stage) const;
  const SampleShape& sample() const { return options_.sample; }
  int64_t update_rows() const { return options_.update_rows; }

  /// Number of segments, at least 1.
  int segments() const { return segments_; }
  /// The layers that run here, in the order of the net; sources included.
  const std::vector<LayerPlan>& layers() const { return layers_; }
  /// @param layer index into NetGraph::layers(). @return null: it does not run here.
  const LayerPlan* FindLayer(int layer) const;
  /// The blob whose channels LayerPlan::channels counts.
  int ChannelsOf(int layer) const;
  /// What crosses to and from other nodes, values and gradients. Elsewhere a port is an index into these.
  const std::vector<PortPlan>& ports() const { return ports_; }
  /// The parameters that lie here, frozen ones included, in the order of the layers, then of each layer's blobs.
  const std::vector<ParamPlan>& params() const { return params_; }
  /// What a layer reads of them, as indices into params(), in the order of its blobs. @param layer index into
  /// NetGraph::layers(), of one that runs here.
  const std::vector<int>& params_of(int layer) const { return params_of_.at(layer); }
  /// Layers that learn here, as indices into layers(), in the order in which a forward pass runs them.
  const std::vector<int>& learning_layers() const { return learning_layers_; }
  /// Parameter groups: the same layers, those together that share parameters, directly or by way of others. In that
  /// order, of groups by their first layer. A group's gradient is final when its first layer has added to it.
  const std::vector<std::vector<int>>& param_groups() const { return param_groups_; }

  /// What this node gets by an edge, by writer, and what it gives, by reader; itself may be both (IsLocal).
  std::vector<EdgePiece> PiecesIn(const Edge& edge) const;
  std::vector<EdgePiece> PiecesOut(const Edge& edge) const;
  /// Whether both ends of a piece that PiecesIn or PiecesOut returned are on this node, so that it crosses by no port.
  bool IsLocal(const Edge& edge, const EdgePiece& piece) const;
  /// The segment of the first layer here that reads what comes by edge `edge`.
  int LandingSegment(int edge) const;
  /// The part by which the placement tells nodes of a stage apart: all replicas are alike and count as part 0.
  /// @param stage must be one of parts().
  int distinct_part(int stage) const;
  /// Whether the segment has a backward task: some layer of it computes gradients, or a gradient passes through.
  bool has_backward(int segment) const;
  /// Whether the node has a Data or Input layer; it is in segment 0.
  bool reads_images() const;
  /// Of a blob of the whole net, for one sample.
  const Shape& sample_shape(int blob) const { return shapes_[blob]; }
  /// Whether some layer of the segment reads labels, or counts some.
  bool reads_labels(int segment) const;
  /// Whether some layer of the segment computes a sample of its classes (GraphLayer::sampled_by).
  bool draws_sample(int segment) const;
  /// Whether some layer of the segment needs the labels of the whole batch: to count them (BatchContext::batch_labels),
  /// or because they are among a sample.
  bool needs_batch_labels(int segment) const;
  /// How many numbers of each row go ahead (LabelNumbersOf).
  int64_t label_numbers() const { return static_cast<int64_t>(graph_->counted_labels().size()); }

 private:
  NodePlan(const NetGraph& graph, const Placement& placement, const Options& options)
      : graph_(&graph), placement_(&placement), options_(options) {}

  void PlaceLayers();
  void PlaceBlocks();
  bool ReadsInBlocks(int layer, int classes) const;
  void AddParams();
  void AddLeavingPorts();
  void AddLandingPorts();
  void AddPort(PortPlan port, const EdgePiece& piece);
  void FindLearningLayers();
  void FindGroups();
  bool SharesParams(int a, int b) const;
  void DecideGradients();
  bool CanBeDeferred(const LayerPlan& layer) const;
  Status CheckSamples() const;
  bool IsImages(int stage, int blob) const;
  bool data_parallel(int stage) const { return placement_->layout().stages[stage].data_parallel; }

  const NetGraph* graph_;
  const Placement* placement_;
  Options options_;
  std::vector<Shape> shapes_;  // of the whole net's blobs, for one sample
  std::map<int, int> places_;  // layer -> index into layers_
  int segments_ = 1;
  std::vector<LayerPlan> layers_;
  std::vector<PortPlan> ports_;
  std::vector<ParamPlan> params_;
  std::map<int, std::vector<int>> params_of_;  // layer -> indices into params_
  std::vector<int> learning_layers_;
  std::vector<std::vector<int>> param_groups_;
};

}  // namespace hp
