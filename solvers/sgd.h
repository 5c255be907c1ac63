#pragma once

#include "backend/update.h"
#include "proto/caffe.pb.h"

namespace hp {

/// The coefficients of a parameter with `lr_mult` and `decay_mult` for the update with learning rate `rate`.
/// @param scale of the gradients: ClipScale's over the loss scale, 1 without clip_gradients and loss scaling.
SgdCoefficients SgdCoefficientsFor(const caffe::SolverParameter& solver, float rate, float lr_mult, float decay_mult,
                                   float scale);

/// The factor that brings a gradient of squared norm `sum_of_squares` (all parameters of the net, summed over
/// iter_size) down to clip_gradients; 1 if it is no longer than that or nothing is clipped.
float ClipScale(const caffe::SolverParameter& solver, double sum_of_squares);

}  // namespace hp
