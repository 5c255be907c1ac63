#pragma once

#include "proto/caffe.pb.h"

#include <cstdint>

namespace hp {

/// Caffe's SGD for one parameter and one update:
///   g = gradient_scale * gradient + l2 * w + l1 * sign(w)
///   h = momentum * h + rate * g
///   w = w - h
/// The learning rate is inside the history, so a change of rate acts on new gradients only.
/// Source: Caffe, src/caffe/solvers/sgd_solver.cpp.
struct SgdCoefficients {
  float rate = 0;  ///< learning rate times lr_mult
  float momentum = 0;
  float l2 = 0, l1 = 0;      ///< weight_decay times decay_mult, in the one that regularization_type names
  float gradient_scale = 1;  ///< clip scale / iter_size: Caffe clips the sum over iter_size, then divides
};

/// The coefficients of a parameter with `lr_mult` and `decay_mult` for the update with learning rate `rate`.
/// @param clip_scale what the verdict said (ClipScale), 1 without clip_gradients.
SgdCoefficients SgdCoefficientsFor(const caffe::SolverParameter& solver, float rate, float lr_mult, float decay_mult,
                                   float clip_scale);

/// The update in one pass over memory, by all threads of an OpenMP team (by the calling thread alone inside a parallel
/// region). Any part of a parameter may be updated by itself: elements do not depend on each other.
/// @param gradient,history,weights [n] float32, no overlap.
void SgdUpdate(const SgdCoefficients& coefficients, int64_t n, const float* gradient, float* history, float* weights);

/// The sum of squares of values[0, n), added in double in a fixed order whatever the number of threads.
/// Not finite exactly when a value is NaN or infinite: squares of float32 do not overflow a double.
double SumOfSquares(const float* values, int64_t n);

/// The factor that brings a gradient of squared norm `sum_of_squares` (all parameters of the net, summed over
/// iter_size) down to clip_gradients; 1 if it is no longer than that or nothing is clipped.
float ClipScale(const caffe::SolverParameter& solver, double sum_of_squares);

}  // namespace hp
