#pragma once

#include "backend/update.h"
#include "proto/caffe.pb.h"

#include <cstdint>

namespace hp {

/// The coefficients for one update of a parameter with `lr_mult` and `decay_mult`: the rule of the solver's type,
/// weight decay as L1 or L2 by regularization_type, and the division by iter_size. The formulas are beside
/// UpdateCoefficients.
/// @param solver that CheckSolver passed.
/// @param clock the update, from 0: Adam's moments are corrected for how many gradients they are of.
/// @param rate LearningRate of the update, without lr_mult.
/// @param scale factor of the gradients: the verdict's scale / loss scale; 1 without clip_gradients and loss scaling.
UpdateCoefficients UpdateCoefficientsFor(const caffe::SolverParameter& solver, int64_t clock, float rate, float lr_mult,
                                         float decay_mult, float scale);

/// The learning rate of a parameter that goes by norms (larc), in place of rate * lr_mult: with
///   r = larc_eta * |values| / |gradient|, or 1 where one of the two is 0,
/// it is rate * r, or, with larc_policy "clip", the smaller of rate and r. The gradient is clipped, divided by
/// iter_size, and without weight decay.
/// @param gradient_squares, value_squares sums over the whole blob; of the gradient summed over iter_size.
/// @param clip the verdict's scale. Pure; any thread.
/// Source: NVIDIA's Caffe, src/caffe/solvers/sgd_solver.cpp, SGDSolver::GetLocalRate.
float LarcRate(const caffe::SolverParameter& solver, float rate, double gradient_squares, double value_squares,
               double clip);

/// The coefficients for a moving average that keeps `keeps` of itself in each of the update's iter_size sub-batches.
UpdateCoefficients AverageCoefficients(const caffe::SolverParameter& solver, float keeps);

}  // namespace hp
