#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"

namespace hp {

/// Checks all fields of a solver file: required ones, their ranges, and Caffe features that hpnode does not support
/// yet. Reads no other file: whether the net exists shows later. LearningRate, the updates and the schedule take these
/// checks for granted.
/// @return kInvalidArgument with every fault, a line "FIELD: what stood there; what was expected" for each. The message
/// does not name the file: add it by Status::Prepend.
Status CheckSolver(const caffe::SolverParameter& solver);

}  // namespace hp
