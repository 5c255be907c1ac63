#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"

namespace hp {

/// Checks a whole solver file: the fields that must be there, their ranges, and what Caffe knows but hpnode does not
/// support yet. Every fault is a line "FIELD: what stood there, what was expected"; all of them are in the one message.
/// Whether the nets exist is the net room's business.
/// @return kInvalidArgument with all faults; the caller puts the file's name in front (Status::Prepend).
Status CheckSolver(const caffe::SolverParameter& solver);

}  // namespace hp
