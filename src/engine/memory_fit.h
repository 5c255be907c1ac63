#pragma once

#include "model/node_model.h"

#include <cstddef>
#include <string>

namespace hp {

/// What a node's memory is made of, in bytes of its device, with a pool of `pool_size` solvers.
struct NodeMemory {
  int pool_size = 1;
  size_t parameters = 0;  ///< values, gradients and histories
  size_t solver = 0;      ///< of one
  size_t matrices = 0;    ///< rows of deferred gradients
  size_t scratch = 0;
  /// What only a device with memory of its own needs: room for what comes from the host, gradients of frozen parameters
  /// that ops write, parameters in other layouts.
  size_t device_only = 0;

  size_t bytes() const;
  /// One line: the parts.
  std::string Describe() const;
};

/// The pool that the node gets: the table's, or (where the table leaves it open) the plan's, cut to what the table's
/// memory_mb and the device's free memory allow.
/// @return kInvalidArgument with the figures: not even the table's pool, or one solver, fits.
StatusOr<NodeMemory> FitMemory(const NodeModel& model);

}  // namespace hp
