#pragma once

#include "checkpoint/snapshot.h"
#include "model/node_model.h"
#include "solvers/param_store.h"

#include <cstdint>
#include <string>

namespace hp {

/// Where a job's parameters come from.
struct InitialParams {
  uint64_t seed = 0;                   ///< of the fillers
  LoadedSnapshot* snapshot = nullptr;  ///< values and momentum; is fitted to the net
  std::string snapshot_path;           ///< for messages
  std::string weights;                 ///< a .caffemodel, where there is no snapshot; empty: none
};

/// Sets this node's slices of all parameters: by the fillers first, then what the snapshot or the weights have.
/// @return which blob of which file does not fit.
Status SetInitialParams(const NodeModel& model, const InitialParams& from, ParamStore* params);

}  // namespace hp
