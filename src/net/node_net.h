#pragma once

#include "backend/backend.h"
#include "hp/status.h"
#include "layers/op_factories.h"
#include "net/placement.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hp {

/// One parameter as this node holds it.
struct NodeParam {
  std::string layer;
  int blob = 0;                        ///< index among the layer's blobs
  ParamSpec spec;                      ///< of the whole blob
  int64_t begin_row = 0, end_row = 0;  ///< this node's range of axis 0
};

/// Which node of the table a NodeNet is for, and what it needs to know to make ops.
struct NodeRole {
  int stage = 0;
  int part = 0;        ///< replica or shard
  Shape sample_shape;  ///< [C, H, W] of one record after its transformation
  Backend* backend = nullptr;
  const OpFactories* ops = &OpFactories::BuiltIn();  ///< for all types of the graph's layers
  uint64_t seed = 0;
  /// Samples of one update that pass through this node, where weight gradients may be deferred; 0: never deferred.
  int64_t update_rows = 0;
};

/// A run of bytes of a micro-batch: in the solver's arena, in a matrix of the whole update (one row a sample), or the
/// data reader's own memory.
struct NetBuffer {
  enum Kind { kArena, kUpdateMatrix, kImages } kind = kArena;
  size_t bytes = 0;   ///< of all rows of the micro-batch
  size_t offset = 0;  ///< kArena: from the arena's begin; kUpdateMatrix: which matrix
};

struct NetTensor {
  std::string name;
  TensorDesc desc;
  int value = -1;     ///< buffer
  int gradient = -1;  ///< buffer, or -1: none on this node
};

/// One op of the node's net, with the tensors it reads and writes.
struct NetStep {
  std::string name;                            ///< the layer's, or "split NAME", "export NAME", ...
  const LayerTraits* layer = nullptr;          ///< the graph's; null for steps of our own
  std::shared_ptr<Op> op;                      ///< null for sources
  std::vector<int> in, out;                    ///< tensors
  std::vector<int> in_gradient, out_gradient;  ///< buffers, -1: not wanted / none
  std::vector<int> params;                     ///< into NodeNet::params()
  int segment = 0;
  bool forward = true, backward = false;  ///< whether there is anything to compute
  bool learns = false;                    ///< computes gradients of its parameters here
  bool deferred = false;                  ///< ... in one go over the rows of the whole update, by update_op
  std::shared_ptr<Op> update_op;
  size_t saved = 0;  ///< offset of saved bytes in the arena
};

/// One tensor that crosses to or from another node for every micro-batch.
struct NetPort {
  int edge = 0;           ///< number of the edge, the same on all nodes
  bool gradient = false;  ///< a gradient on its way back
  bool landing = false;   ///< arrives here; else leaves from here
  int stage = 0;          ///< the other node's
  int part = 0;           ///< the other node's shard; -1: the replica whose micro-batch it is
  int segment = 0;        ///< landing: needed before it; leaving: ready after it (forward, or backward for gradients)
  int buffer = 0;
};

/// A statistic (loss, accuracy) computed on this node.
struct NetOutput {
  std::string blob, layer;
  int tensor = 0;
  int segment = 0;
  float loss_weight = 0;
  bool top_of_net = false;  ///< consumed by nobody: printed
};

/// What a run of a segment works on.
struct NetRun {
  std::byte* arena = nullptr;                   ///< arena_bytes() of the micro-batch's solver
  std::span<std::byte* const> update_matrices;  ///< row 0 of the update
  int64_t update_row = 0;                       ///< first row of this micro-batch within the update
  float* images = nullptr;                      ///< kImages, conv nodes
  std::byte* scratch = nullptr;                 ///< scratch_bytes(), one for the executor
  BatchContext batch;
  std::span<const ParamView> params;
  std::span<float* const> gradients;  ///< by parameter; null where none is kept
  bool accumulate = false;            ///< BackwardParams adds to `gradients`
};

/// The part of one phase's net that one node runs, for micro-batches of a fixed number of rows: steps cut into segments
/// by the exchange points, the tensors that cross, and a plan of the solver's memory. Has no state that runs change, so
/// all solvers share it. Executor thread only, but for the accessors.
class NodeNet {
 public:
  static StatusOr<std::unique_ptr<NodeNet>> Create(const NetGraph& graph, const Placement& placement,
                                                   const NodeRole& role, int64_t rows);

  int64_t rows() const { return rows_; }
  int segments() const { return segments_; }
  const std::vector<NodeParam>& params() const { return params_; }
  const std::vector<NetPort>& ports() const { return ports_; }
  const std::vector<NetOutput>& outputs() const { return outputs_; }
  const std::vector<NetStep>& steps() const { return steps_; }
  const std::vector<NetTensor>& tensors() const { return tensors_; }
  /// Bytes of one row of each matrix that holds a whole update.
  const std::vector<size_t>& update_row_bytes() const { return update_row_bytes_; }
  size_t buffer_bytes(int buffer) const { return buffers_[buffer].bytes; }
  size_t arena_bytes() const { return arena_bytes_; }
  size_t scratch_bytes() const { return scratch_bytes_; }
  bool has_backward(int segment) const;
  bool reads_labels(int segment) const;
  bool needs_batch_labels(int segment) const;
  bool reads_images() const { return reads_images_; }
  /// Of one micro-batch, as the data reader yields them; 0: none are read here.
  size_t images_bytes() const;
  void Forward(int segment, const NetRun& run) const;
  /// Input gradients of a segment, and the gradients of those parameters that are computed at once: all of them in one
  /// go if `weights` is true, reporting each step after which its parameters' gradients are done for this micro-batch.
  void Backward(int segment, const NetRun& run, bool weights,
                const std::function<void(const NetStep&)>& on_weights) const;
  /// The gradients of one step's parameters for this micro-batch.
  void WeightGradient(const NetStep& step, const NetRun& run) const;
  /// Calls `use` with the op and the arguments of a deferred step over all rows of the update (run.update_row is not
  /// read): for BackwardParams, or for its pieces.
  void WithUpdateArgs(const NetStep& step, const NetRun& run, const std::function<void(Op&, const OpArgs&)>& use) const;

  std::span<std::byte> BufferSpan(int buffer, const NetRun& run) const;
  Tensor ValueOf(int tensor, const NetRun& run) const;

 private:
  friend class NodeNetBuilder;
  friend class MemoryPlanner;
  OpArgs Bind(const NetStep& step, const NetRun& run, struct BoundArgs* bound) const;

  int64_t rows_ = 0, update_rows_ = 0;
  int segments_ = 1;
  std::vector<NetBuffer> buffers_;
  std::vector<NetTensor> tensors_;
  std::vector<NetStep> steps_;
  std::vector<NetPort> ports_;
  std::vector<NodeParam> params_;
  std::vector<NetOutput> outputs_;
  std::vector<size_t> update_row_bytes_;
  size_t arena_bytes_ = 0, scratch_bytes_ = 0;
  bool reads_images_ = false;
};

}  // namespace hp
