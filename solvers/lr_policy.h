#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"

#include <string>
#include <vector>

namespace hp {

/// Checks lr_policy (fixed, step, exp, inv, multistep, poly or sigmoid) and the fields that it needs; base_lr is
/// CheckSolver's.
/// @return kInvalidArgument with the first fault: no or an unknown policy, or stepsize is missing or no divisor. And
/// the fields of other Caffes: warmup_iter, warmup_start_lr, min_lr.
Status CheckLearningRate(const caffe::SolverParameter& solver);

/// A line for each field that the policy goes by and that is missing, so that Caffe's default of 0 counts (gamma,
/// power), and one for stepvalues that do not increase.
std::vector<std::string> LearningRateWarnings(const caffe::SolverParameter& solver);

/// The learning rate of update `iter` (from 0), without lr_mult. A function of the solver file and `iter` alone, so a
/// resumed run needs no state: multistep counts the stepvalues that Caffe has
/// come by, at most one an iteration and in the order of the file.
/// @param solver has passed CheckSolver.
/// With warmup_iter the first updates have rates on the line from warmup_start_lr to base_lr, and the policy counts
/// from the beginning. Source: Caffe, src/caffe/solvers/sgd_solver.cpp, SGDSolver::GetLearningRate; for the warm-up and
/// min_lr the same file of Intel's and NVIDIA's Caffe.
float LearningRate(const caffe::SolverParameter& solver, int iter);
/// The same, with `base_lr` in place of the solver's.
float LearningRate(const caffe::SolverParameter& solver, float base_lr, int iter);

/// Caffe's SolverState::current_step for the update at `iter`, which snapshots contain: the number of steps that "step"
/// or "multistep" has taken; 0 for other policies. @param solver has passed CheckSolver.
int LearningRateStep(const caffe::SolverParameter& solver, int iter);

}  // namespace hp
