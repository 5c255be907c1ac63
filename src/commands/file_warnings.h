#pragma once

#include "proto/caffe.pb.h"
#include "scheduler/plan/job_plan.h"

#include <string>
#include <vector>

namespace hp {

/// What nodes would refuse of the files that a solver names beside its nets, if they had them as this host does: the
/// folder of its snapshots and its `weights`. Warnings alone, since a table may be made on another host than theirs.
/// Reads the weights whole where they are to be compared, up to 1 GiB.
/// @param solver_path where it was read from. @param job with which the weights are compared; null: shapes are unknown.
/// @return a line for each; empty: nothing is wrong. Any thread.
std::vector<std::string> FileWarnings(const caffe::SolverParameter& solver, const std::string& solver_path,
                                      const JobPlan* job);

}  // namespace hp
