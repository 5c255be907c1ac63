#pragma once

#include "base/host_device.h"

#include <cstdint>

namespace hp {

/// Caffe's SGD for one parameter and one update:
///   g = gradient_scale * gradient + l2 * w + l1 * sign(w)
///   h = momentum * h + rate * g
///   w = w - h
/// with g the gradient, w the weights and h the history (momentum). The learning rate is inside the history, so a
/// change of rate acts on new gradients only. Source: Caffe, src/caffe/solvers/sgd_solver.cpp.
struct SgdCoefficients {
  float rate = 0;        ///< learning rate times lr_mult
  float momentum = 0;    ///< Caffe's field; 0: plain SGD
  float l2 = 0, l1 = 0;  ///< weight_decay times decay_mult in the one that regularization_type names, the other 0
  /// Clip scale / iter_size / loss scale, in this order: Caffe clips the sum over iter_size, then divides.
  float gradient_scale = 1;
};

/// The update of one element, on the host or in a kernel; the same operations on all devices.
/// @tparam kL1 whether c.l1 is read; false saves its cost where l1 is 0.
template <bool kL1>
HP_HOST_DEVICE inline void SgdStep(const SgdCoefficients& c, float gradient, float* history, float* weight) {
  const float w = *weight;
  float g = c.gradient_scale * gradient + c.l2 * w;
  if (kL1) g += c.l1 * (static_cast<float>(w > 0) - static_cast<float>(w < 0));
  const float h = c.momentum * *history + c.rate * g;
  *history = h;
  *weight = w - h;
}

/// A parameter in an update, or any range of its elements: elements do not depend on each other. The three arrays are
/// [n] float32 in the device's memory and do not overlap, nor do those of different parts of one call.
struct SgdPart {
  SgdCoefficients coefficients;
  int64_t n = 0;
  const float* gradient = nullptr;
  float *history = nullptr, *weights = nullptr;
};

/// An array whose sum of squares is wanted, and where the result goes. All in the device's memory.
struct SquaresPart {
  const float* values = nullptr;  ///< [n]
  int64_t n = 0;
  double* sum = nullptr;  ///< overwritten
};

}  // namespace hp
