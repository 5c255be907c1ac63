#pragma once

#include "checkpoint/snapshot.h"
#include "model/node_model.h"
#include "solvers/param_store.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

/// Where a job's parameters come from.
struct InitialParams {
  uint64_t seed = 0;                   ///< of the fillers; the same on all nodes
  LoadedSnapshot* snapshot = nullptr;  ///< values and histories, of all blobs; changed by FitSnapshot. Null: none
  std::string snapshot_path;           ///< for messages
  std::vector<std::string> weights;    ///< .caffemodels; not read where there is a snapshot
};

/// Sets all values to what the fillers of the net's layers draw. @return kInternal: the device failed.
Status FillParams(const NodeNet& net, uint64_t seed, ParamStore* params);

/// Sets this node's slices of all parameters: to what the snapshot has, or by the fillers, then what stands inside the
/// training net's own file (blobs), and then what the files of `weights` have, a later one over an earlier one. A layer
/// that they lack keeps its fillers' values, as with Caffe's
/// --weights; a snapshot must have all. Main thread, before training.
/// @return kFailedPrecondition, kNotFound: a blob of the file does not fit or is missing, or a layer has more of them
/// there (named); kNotFound, kDataLoss:
/// a file can't be read; kInternal: the device failed.
Status SetInitialParams(const NodeModel& model, const InitialParams& from, ParamStore* params);

}  // namespace hp
