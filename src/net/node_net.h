#pragma once

#include "backend/backend.h"
#include "hp/status.h"
#include "layers/op_factories.h"
#include "net/plan/node_plan.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hp {

/// What ops are made with, beside the plan.
struct NetContext {
  Backend* backend = nullptr;                        ///< makes the ops; must outlive the net
  const OpFactories* ops = &OpFactories::BuiltIn();  ///< for all layer types of the graph; used by Create alone
  uint64_t seed = 0;                                 ///< the job's: dropout masks follow from it
  /// Names of blobs whose values stay until the forward pass is done, for NodeNet::kept. Where several layers write
  /// one in place, the last one's value. For nets of all layers on one node.
  std::vector<std::string> kept = {};
};

/// A buffer of one micro-batch: where a tensor's value or gradient lies. Tensors that share memory share a buffer.
struct NetBuffer {
  /// In the solver's arena; in its memory that peers write into and read from; rows of a matrix that holds a row for
  /// each sample of the update; the data reader's memory; nowhere: values that are used up block by block within the
  /// step that computes them.
  enum Kind { kArena, kPorts, kUpdateMatrix, kImages, kNowhere } kind = kArena;
  size_t bytes = 0;   ///< of all rows of the micro-batch
  size_t offset = 0;  ///< kUpdateMatrix: index of the matrix; else bytes from the begin of that memory
};

/// A tensor of the node's net. Several tensors may be one blob: its parts, or copies for several readers.
struct NetTensor {
  std::string name;   ///< the blob's, or of a step of our own
  TensorDesc desc;    ///< axis 0 is the rows of the micro-batch
  int value = -1;     ///< index of its buffer
  int gradient = -1;  ///< index of its gradient's buffer; -1: it has none on this node
};

/// One op of the node's net and the tensors that it reads and writes. Steps of our own, beside those of layers, bring
/// tensors into the form in which they are read or sent: gather, dense, split, round, export, import (see README.md).
struct NetStep {
  std::string name;                    ///< the layer's, or "split NAME", "export NAME", ...
  const LayerTraits* layer = nullptr;  ///< the graph's; null for steps of our own
  int layer_index = -1;                ///< into the graph's layers; -1 for steps of our own
  std::shared_ptr<Op> op;              ///< never null; sources have no step
  std::vector<int> in, out;            ///< indices of tensors; labels are not among them
  /// Indices of buffers: one for each of `in`, -1 where the gradient is not wanted; one for each of `out`, -1 where
  /// there is none. An export has one output gradient for each reader that sends one, in the order of ranks.
  std::vector<int> in_gradient, out_gradient;
  std::vector<int> params;                ///< indices into NodePlan::params()
  int segment = 0;                        ///< the segment that runs the step
  bool forward = true, backward = false;  ///< whether there is anything to compute; not for views
  bool learns = false;                    ///< computes gradients of its parameters here
  bool shares = false;                    ///< LayerPlan::shares: it adds to gradients, in the first micro-batch too
  std::vector<int> clears;        ///< before that: parameters whose gradients its first micro-batch sets to zero
  bool deferred = false;          ///< in one go over the rows of the whole update, by update_op
  bool in_backward = false;       ///< for each micro-batch, within Backward; neither: by WeightGradient
  int part = 0;                   ///< of a layer: index of its stage's part in plan().parts()
  std::shared_ptr<Op> update_op;  ///< the same layer's op for plan().update_rows() rows; null unless deferred
  int sample = -1;                ///< GraphLayer::sampled_by of its layer
  size_t saved = 0;               ///< offset in the arena of what Forward saves for the backward pass
};

/// A statistic (loss or accuracy) that this node computes: a tensor with one element, the contribution of the
/// micro-batch's rows.
struct NetOutput {
  std::string blob, layer;  ///< names in the prototxt
  int stage = 0;            ///< of its layer
  int tensor = 0;           ///< index of its tensor
  int segment = 0;          ///< it is there when the forward task of this segment is done
  float loss_weight = 0;    ///< its factor in the loss; 0: it is only printed
  bool top_of_net = false;  ///< one of the net's outputs: no layer reads it, not even a Silence, and it has a name
};

/// The samples of a clock's classes on this node, by the layer whose classes they are (an index into the graph's).
using ClassSamples = std::map<int, UpdateSample>;

/// The memory that one call works in. All pointers are to memory of the backend's device, which must stay as it is
/// until the call's work is done.
struct NetRun {
  std::byte* arena = nullptr;                   ///< arena_bytes(): the solver of the micro-batch
  std::byte* ports = nullptr;                   ///< port_bytes(): likewise
  std::span<std::byte* const> update_matrices;  ///< the first row of each matrix of update_row_bytes()
  int64_t update_row = 0;                       ///< first row of this micro-batch within the update's matrices
  float* images = nullptr;                      ///< images_bytes(); null where none are read
  const RawImages* raw_images = nullptr;        ///< for Forward of a net that reads them; `images` hold nothing then
  std::byte* scratch = nullptr;                 ///< scratch_bytes(): one for all steps, which must not overlap
  BatchContext batch;                           ///< labels, loss scale and place of the rows in the training
  std::span<const ParamView> params;            ///< one for each of plan().params()
  std::span<float* const> gradients;            ///< one for each of plan().params(); may be empty for Forward
  const ClassSamples* samples = nullptr;        ///< for nets with steps that have one; of this batch, and all before it
  int64_t batch_of_update = 0;                  ///< the micro-batch's, in [0, iter_size)
  uint64_t accumulate = 0;  ///< bit p: gradients of parameters of plan().parts()[p] are added to, not begun anew
  /// Null, or called between two steps, where scratch may be used for others.
  const std::function<void()>* between_layers = nullptr;
};

/// The part of one phase's net that one node runs, for micro-batches of a fixed number of rows: ops, the tensors
/// between them, the buffers of what crosses to other nodes, and a plan of the solver's memory. It owns no memory of
/// tensors or parameters: each call gets it as a NetRun. Immutable once created, so all solvers share one net.
///
/// Within one micro-batch: Forward of the segments upwards, then Backward of the segments downwards. WeightGradient of
/// a step that learns and is neither deferred nor in_backward comes at any time after Backward of its segment. All of
/// them get the same arena and ports. Executor thread only, but for the accessors, BufferSpan and ValueOf. On a device
/// the calls enqueue their work into Device::kCompute.
class NodeNet {
 public:
  /// Makes the ops and plans the memory; expensive, since backends may prepare kernels.
  /// @param plan what runs on the node; copied. Its graph and placement must outlive the net.
  /// @param rows of a micro-batch, at least 1.
  /// @return kInvalidArgument, naming the layer: the backend can't compute it, or shapes do not fit; naming the blob: a
  /// kept one is unknown, labels, or nowhere as a whole; kInternal: no factory for a layer's type.
  static StatusOr<std::unique_ptr<NodeNet>> Create(const NodePlan& plan, const NetContext& context, int64_t rows);

  int64_t rows() const { return rows_; }
  const NodePlan& plan() const { return plan_; }
  int segments() const { return plan_.segments(); }
  /// The buffer that port `port` reads or writes. @param port index into plan().ports().
  int port_buffer(int port) const { return port_buffers_[port]; }
  /// In the order of the layers.
  const std::vector<NetOutput>& outputs() const { return outputs_; }
  /// In the order of execution: by segment.
  const std::vector<NetStep>& steps() const { return steps_; }
  const std::vector<NetTensor>& tensors() const { return tensors_; }
  /// Indices of tensors, in the order of NetContext::kept: dense float32 values of whole blobs.
  const std::vector<int>& kept() const { return kept_; }
  /// For each matrix that deferred steps need: the bytes of one row. The caller allocates plan().update_rows() rows.
  const std::vector<size_t>& update_row_bytes() const { return update_row_bytes_; }
  size_t buffer_bytes(int buffer) const { return buffers_[buffer].bytes; }
  /// Bytes of a solver: NetRun::arena.
  size_t arena_bytes() const { return arena_bytes_; }
  /// Bytes of a solver that peers write into and read from: NetRun::ports.
  size_t port_bytes() const { return port_bytes_; }
  /// Bytes of NetRun::scratch: the most that any op needs.
  size_t scratch_bytes() const { return scratch_bytes_; }
  /// Bytes of one micro-batch's samples (float32), as SampleShape places them: images, labels where a row has several,
  /// and others; 0: the node reads none.
  size_t images_bytes() const;
  /// Of the same as raw images (tensor/raw_images.h); 0: none are read, or they can't be raw.
  size_t raw_images_bytes() const;
  /// Whether the raw images may stay as they are: the one step that reads the images makes of them what it needs
  /// (NetRun::raw_images).
  bool reads_raw_images() const { return raw_reader_ >= 0; }
  /// These labels, dense [rows, ...]; empty: a row has one, or the node reads no images. @param images NetRun::images.
  std::span<const float> LabelsBehind(const float* images) const;

  /// Runs the forward passes of a segment's steps. Its landing ports must be filled. Calls run.between_layers after
  /// each, as Backward does.
  void Forward(int segment, const NetRun& run) const;
  /// Runs the backward passes of a segment's steps, last step first: input gradients, and for in_backward steps the
  /// gradients of their parameters.
  /// @param on_weights called after each in_backward step: its parameters' gradients of this micro-batch are added.
  /// Null: nobody wants them before the end, when a GPU has them all with fewer launches.
  void Backward(int segment, const NetRun& run, const std::function<void(const NetStep&)>& on_weights) const;
  /// The parts of Forward and Backward that one step has, for who measures them: its forward pass, and the gradients of
  /// its inputs (nothing where no input wants one). In the same order.
  void ForwardStep(const NetStep& step, const NetRun& run) const;
  void InputGradient(const NetStep& step, const NetRun& run) const;
  /// All that Backward does for a step with a backward pass, for who runs its steps one by one, in its order. The
  /// gradients of parameters are there after FinishGradients, which is Backend::FinishGradients.
  void BackwardStep(const NetStep& step, const NetRun& run) const;
  void FinishGradients() const;
  /// Computes the gradients of one step's parameters for this micro-batch; after Backward of its segment. Of steps that
  /// share parameters (NodePlan::param_groups) the last of the group comes first: it clears the gradients.
  void WeightGradient(const NetStep& step, const NetRun& run) const;
  /// Calls `use` with update_op and its arguments, over all rows of the update, of a deferred step: for BackwardParams
  /// or BackwardParamsRows. After Backward of all micro-batches of the update. Ignores run.update_row.
  void WithUpdateArgs(const NetStep& step, const NetRun& run, const std::function<void(Op&, const OpArgs&)>& use) const;

  /// The memory of a buffer in this run; the rows of the micro-batch alone where it is in a matrix.
  std::span<std::byte> BufferSpan(int buffer, const NetRun& run) const;
  /// A tensor's value in this run.
  Tensor ValueOf(int tensor, const NetRun& run) const;

 private:
  friend class NodeNetBuilder;
  friend class MemoryPlanner;
  NodeNet(const NodePlan& plan, int64_t rows) : plan_(plan), rows_(rows) {}
  /// WeightGradient, but for Backend::FinishGradients.
  void BeginWeightGradient(const NetStep& step, const NetRun& run) const;
  /// How many labels lie behind images.
  int64_t labels_behind() const;
  /// Whether earlier micro-batches of the update have gradients of the step's parameters.
  static bool Accumulates(const NetStep& step, const NetRun& run);
  /// The arguments of a step's op; `bound` holds what they point to.
  OpArgs Bind(const NetStep& step, const NetRun& run, struct BoundArgs* bound) const;

  const NodePlan plan_;
  const int64_t rows_;
  Backend* backend_ = nullptr;
  std::vector<NetBuffer> buffers_;
  std::vector<NetTensor> tensors_;
  std::vector<NetStep> steps_;
  std::vector<int> port_buffers_;  // by port of the plan
  std::vector<NetOutput> outputs_;
  std::vector<int> kept_;
  std::vector<size_t> update_row_bytes_;
  size_t arena_bytes_ = 0, port_bytes_ = 0, scratch_bytes_ = 0;
  int raw_reader_ = -1;  // a step
};

}  // namespace hp
