#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"

#include <string>

namespace hp {

/// Whether the snapshots that a solver asks for can be written, as Caffe looks at its start: makes a file beside them
/// and removes it. Blocks for the disk. A disk that is full is no error: it may have room when a snapshot is due.
/// @param solver_path where it was read from; empty: its prefix is not the one that stands there.
/// @return kNotFound: their folder is missing; kInvalidArgument: no file can be made there. Names the solver's file and
/// line, the folder, and the reason.
Status CheckSnapshotPrefix(const caffe::SolverParameter& solver, const std::string& solver_path);

}  // namespace hp
