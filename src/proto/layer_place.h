#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"

#include <string>

namespace hp {

/// The same error with "FILE:LINE: " in front, if its message begins with the name of a layer ('layer "conv1": ...')
/// and the layer stands in the file that the solver's net was read from; else unchanged. Reads that file again.
/// @param solver of ReadSolver. @param solver_path where it was read from: a net_param stands there.
Status AtLayer(const Status& status, const caffe::SolverParameter& solver, const std::string& solver_path);
/// The same for a net that was read from `path`.
Status AtLayer(const Status& status, const std::string& path);

}  // namespace hp
