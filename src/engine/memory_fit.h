#pragma once

#include "model/node_model.h"

#include <cstddef>
#include <string>

namespace hp {

/// What a node's memory is made of, in bytes of its device, with a pool of `pool_size` solvers.
struct NodeMemory {
  int pool_size = 1;      ///< solvers
  size_t parameters = 0;  ///< values, gradients and histories
  size_t solver = 0;      ///< of one solver
  size_t matrices = 0;    ///< inputs of deferred gradients, of all rows of an update
  size_t scratch = 0;     ///< shared by all solvers
  /// What only a device with memory of its own needs: copies of inputs that come from the host, gradients of frozen
  /// parameters that ops write, parameters in other layouts; 0 on the host.
  size_t device_only = 0;

  /// The whole, with each solver rounded up to pages.
  size_t bytes() const;
  /// One line with the parts, for the log and for errors.
  std::string Describe() const;
};

/// Decides the size of the node's pool, before any of the memory is allocated: the table's pool_size; where that is 0
/// the plan's, made smaller until all fits into the table's memory_mb and the device's free memory. The host's free
/// memory is no limit. Image buffers and snapshots' copies are not counted. Main thread.
/// @return kInvalidArgument with the figures: the table's pool does not fit, or where that is 0 not even one solver.
StatusOr<NodeMemory> FitMemory(const NodeModel& model);

}  // namespace hp
