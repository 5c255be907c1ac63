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
/// The same error with "PATH: " in front, unless it begins with "PATH:" already.
Status AtFile(const Status& status, const std::string& path);

/// The same error with "FILE:LINE: " in front of each of its lines that begins with the name of a field ("momentum: -1;
/// expected ...") which stands in the solver's file, and with "FILE: " in front of the others. Reads that file again.
/// @param status of CheckSolver.
Status AtFields(const Status& status, const std::string& solver_path);

}  // namespace hp
