#pragma once

#include "backend/backend.h"
#include "hp/status.h"
#include "layers/op_factories.h"
#include "net/plan/node_plan.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hp {

/// What ops are made with, beside the plan.
struct NetContext {
  Backend* backend = nullptr;
  const OpFactories* ops = &OpFactories::BuiltIn();  ///< for all types of the graph's layers
  uint64_t seed = 0;
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
  int layer_index = -1;                        ///< into the graph's layers; -1 for steps of our own
  std::shared_ptr<Op> op;                      ///< null for sources
  std::vector<int> in, out;                    ///< tensors
  std::vector<int> in_gradient, out_gradient;  ///< buffers, -1: not wanted / none
  std::vector<int> params;                     ///< into NodeNet::params()
  int segment = 0;
  bool forward = true, backward = false;  ///< whether there is anything to compute
  bool learns = false;                    ///< computes gradients of its parameters here
  bool deferred = false;                  ///< ... in one go over the rows of the whole update, by update_op
  bool in_backward = false;               ///< ... for each micro-batch, by Backward itself
  std::shared_ptr<Op> update_op;
  size_t saved = 0;  ///< offset of saved bytes in the arena
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
  /// @param plan says what runs here; kept. @param rows of a micro-batch.
  /// @return kInvalidArgument: the backend has no op for a layer, named.
  static StatusOr<std::unique_ptr<NodeNet>> Create(const NodePlan& plan, const NetContext& context, int64_t rows);

  int64_t rows() const { return rows_; }
  const NodePlan& plan() const { return plan_; }
  int segments() const { return plan_.segments(); }
  /// The buffer of port `port`, an index into plan().ports().
  int port_buffer(int port) const { return port_buffers_[port]; }
  const std::vector<NetOutput>& outputs() const { return outputs_; }
  const std::vector<NetStep>& steps() const { return steps_; }
  const std::vector<NetTensor>& tensors() const { return tensors_; }
  /// Bytes of one row of each matrix that holds a whole update.
  const std::vector<size_t>& update_row_bytes() const { return update_row_bytes_; }
  size_t buffer_bytes(int buffer) const { return buffers_[buffer].bytes; }
  size_t arena_bytes() const { return arena_bytes_; }
  size_t scratch_bytes() const { return scratch_bytes_; }
  /// Of one micro-batch, as the data reader yields them; 0: none are read here.
  size_t images_bytes() const;
  void Forward(int segment, const NetRun& run) const;
  /// Input gradients of a segment, and of steps that say so (in_backward) those of their parameters; then `on_weights`
  /// is called: they are done for this micro-batch.
  void Backward(int segment, const NetRun& run, const std::function<void(const NetStep&)>& on_weights) const;
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
  NodeNet(const NodePlan& plan, int64_t rows) : plan_(plan), rows_(rows) {}
  OpArgs Bind(const NetStep& step, const NetRun& run, struct BoundArgs* bound) const;

  const NodePlan plan_;
  const int64_t rows_;
  std::vector<NetBuffer> buffers_;
  std::vector<NetTensor> tensors_;
  std::vector<NetStep> steps_;
  std::vector<int> port_buffers_;  // by port of the plan
  std::vector<NetOutput> outputs_;
  std::vector<size_t> update_row_bytes_;
  size_t arena_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace hp
