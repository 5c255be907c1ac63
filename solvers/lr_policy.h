#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"

namespace hp {

/// Whether `solver` says everything its lr_policy needs. Names the policy and the field.
/// @return kInvalidArgument: unknown policy, or a field that it needs is missing or out of range.
Status CheckLearningRate(const caffe::SolverParameter& solver);

/// The learning rate of update `iter` (from 0), before lr_mult. A function of the file and `iter` alone, so that a
/// resumed run needs no state: multistep counts the stepvalues that are <= iter.
/// `solver` has passed CheckLearningRate.
/// Source: Caffe, src/caffe/solvers/sgd_solver.cpp, SGDSolver::GetLearningRate.
float LearningRate(const caffe::SolverParameter& solver, int iter);

/// Caffe's SolverState::current_step at `iter`: the steps taken by "step" and "multistep", else 0.
int LearningRateStep(const caffe::SolverParameter& solver, int iter);

}  // namespace hp
