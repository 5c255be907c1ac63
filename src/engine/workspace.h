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

/// What a node's ops work in, on its device: the solvers' memory, the rows that deferred gradients keep, scratch, and
/// where gradients go. Compute runs micro-batches in it, the Updater whole updates; it knows neither. Owned by Compute.
/// Immutable after Create, so any thread may ask; what lies in the memory is the executor's, the device's and the
/// transport's business.
class Workspace {
 public:
  /// Model, device and params must outlive it. @param pool_size solvers. @return kResourceExhausted: the device has not
  /// that much memory free.
  static StatusOr<std::unique_ptr<Workspace>> Create(const NodeModel& model, int pool_size, Device* device,
                                                     ParamStore* params);

  /// The net that runs micro-batch `id`.
  const NodeNet& NetOf(MsgId id) const;
  /// What micro-batch `id` runs on in `solver`, but for parameters, images and labels.
  NetRun RunOf(int solver, MsgId id) const;
  /// Gives `run` the net's parameters as they are now. @param views where they are kept; must outlive the run.
  void UseParams(const NodeNet& net, std::vector<ParamView>* views, NetRun* run) const;
  /// Calls `use` with the op and the arguments of a deferred step over all rows of the update. Executor thread.
  void WithUpdateArgs(const NetStep& step, const std::function<void(Op&, const OpArgs&)>& use) const;

  /// Memory that peers write into and that is sent from: the solvers', and the rows of deferred gradients.
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
  std::vector<Buffer> matrices_;
  std::vector<std::byte*> matrix_rows_;
  std::vector<Buffer> unused_gradients_;  // of frozen parameters in layers that learn otherwise
  std::vector<float*> gradients_;
  std::map<const NodeNet*, std::vector<int>> param_index_;  // of a NodeNet's parameters in the store
};

}  // namespace hp
