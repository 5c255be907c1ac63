#pragma once

#include "model/node_model.h"
#include "solvers/param_store.h"
#include "solvers/solver_pool.h"
#include "tensor/buffer.h"
#include "tensor/device.h"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace hp {

/// The memory that a node's ops work in, on its device:
///   - an arena for each solver: activations, their gradients, and what ops save;
///   - for each solver the tensors that peers write and read (its ports);
///   - a matrix [rows of the update, row] for each tensor that deferred gradients read: micro-batches fill their rows;
///   - one scratch area, which only one op uses at a time;
///   - the addresses of the parameters' gradients.
/// Compute runs micro-batches in it, the Updater whole updates. Owned by Compute. Immutable after Create, so any thread
/// may call it; who reads and writes the memory when is decided by the pipeline and the device's queues.
class Workspace {
 public:
  /// Allocates all of it, zeroed. Model, device and params must outlive it.
  /// @param pool_size number of solvers, at least 1. @return kResourceExhausted: the device is out of memory.
  static StatusOr<std::unique_ptr<Workspace>> Create(const NodeModel& model, int pool_size, Device* device,
                                                     ParamStore* params);

  /// The net that runs micro-batch `id`: that of its phase and number of rows.
  const NodeNet& NetOf(MsgId id) const;
  /// The memory and the rows that micro-batch `id` runs on in `solver`. Left for the caller: params (UseParams),
  /// images, labels, loss_scale and accumulate. Its spans point into the workspace.
  /// @param solver in [0, pool_size).
  NetRun RunOf(int solver, MsgId id) const;
  /// Points `run` at the net's parameters after `version` updates, and their gradients. Executor thread, which also
  /// changes them. @param net of the model. @param views overwritten; `run` points into it, so it must live as long,
  /// unchanged.
  void UseParams(const NodeNet& net, int64_t version, std::vector<ParamView>* views, NetRun* run) const;
  /// Calls `use` once, before it returns, with the op and the arguments of a deferred step over all rows of the update:
  /// for Op::BackwardParams, or its pieces. Gradients go to the ParamStore. Executor thread.
  /// @param step of NodeModel::any_net(caffe::TRAIN); must be deferred. @param samples of the clock.
  void WithUpdateArgs(const NetStep& step, const ClassSamples& samples,
                      const std::function<void(Op&, const OpArgs&)>& use) const;

  /// Memory that the transport writes into and sends from: all ports as one span, then each matrix.
  std::vector<std::span<std::byte>> shared_memory() const;

 private:
  Workspace(const NodeModel& model, Device* device, ParamStore* params)
      : model_(model), device_(device), params_(params) {}
  Status Allocate(int pool_size);
  Status AllocateGradients();
  void IndexParams();

  const NodeModel& model_;
  Device* const device_;
  ParamStore* const params_;
  std::unique_ptr<SolverPool> pool_;
  Buffer scratch_;
  std::vector<Buffer> matrices_;          // by NodeNet::update_row_bytes
  std::vector<std::byte*> matrix_rows_;   // their first bytes, for NetRun
  std::vector<Buffer> unused_gradients_;  // of frozen parameters, which ops write all the same
  std::vector<float*> gradients_;         // by parameter of the store; null: none is kept
  struct NetParams {
    std::vector<int> index;         // of the net's parameters in the store
    std::vector<float*> gradients;  // theirs
  };
  std::map<const NodeNet*, NetParams> net_params_;
};

}  // namespace hp
