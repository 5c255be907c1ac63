#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"

#include <string>
#include <vector>

namespace hp {

/// Checks all fields of a solver file: required ones, their ranges, and Caffe features that hpnode does not support
/// yet. Reads no other file: whether the net exists shows later. LearningRate, the updates and the schedule take these
/// checks for granted.
/// @return kInvalidArgument with every fault, a line "FIELD: what stood there; what was expected" for each. The message
/// does not name the file: add it by Status::Prepend.
Status CheckSolver(const caffe::SolverParameter& solver);

/// What a solver that CheckSolver accepts leaves unsaid or says in vain: a line for each field that is missing, so that
/// Caffe's default of 0 counts, or has no effect. The lines do not name the file.
std::vector<std::string> SolverWarnings(const caffe::SolverParameter& solver);

}  // namespace hp
