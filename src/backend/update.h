#pragma once

#include "base/host_device.h"

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
  float l2 = 0, l1 = 0;  ///< weight_decay times decay_mult, in the one that regularization_type names
  /// Clip scale / iter_size / loss scale: Caffe clips the sum over iter_size, then divides.
  float gradient_scale = 1;
};

/// One element of it. @param kL1 whether l1 may be other than 0: the common regularisers pay for nothing else.
template <bool kL1>
HP_HOST_DEVICE inline void SgdStep(const SgdCoefficients& c, float gradient, float* history, float* weight) {
  const float w = *weight;
  float g = c.gradient_scale * gradient + c.l2 * w;
  if (kL1) g += c.l1 * (static_cast<float>(w > 0) - static_cast<float>(w < 0));
  const float h = c.momentum * *history + c.rate * g;
  *history = h;
  *weight = w - h;
}

/// A parameter in an update, or any run of its elements: they do not depend on each other. [n] float32, no overlap.
struct SgdPart {
  SgdCoefficients coefficients;
  int64_t n = 0;
  const float* gradient = nullptr;
  float *history = nullptr, *weights = nullptr;
};

/// Where the sum of squares of values [n] is wanted.
struct SquaresPart {
  const float* values = nullptr;
  int64_t n = 0;
  double* sum = nullptr;
};

}  // namespace hp
