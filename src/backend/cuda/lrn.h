#pragma once

#include "base/host_device.h"

#include <cmath>

// The arithmetic of LRN's kernels (lrn.cu). Only for .cu files.
namespace hp::cuda {

/// s^-beta and, in *next, s^-(beta+1), for beta = 3/4 (that of the published nets) without a logarithm; s > 0.
struct ThreeQuarters {
  HP_HOST_DEVICE float operator()(float s, float* next) const {
    const float root = rsqrtf(s), power = root * sqrtf(root);
    *next = power * (root * root);
    return power;
  }
};

/// The same for any beta.
struct AnyPower {
  float beta;
  HP_HOST_DEVICE float operator()(float s, float* next) const {
    const float power = powf(s, -beta);
    *next = power / s;
    return power;
  }
};

/// y = x s^-beta with s = k + scale * (sum of x^2 over a window);
/// dx = dy s^-beta + gradient_scale * x * (sum over the window of dy x s^-(beta+1)).
template <typename Power>
struct LrnTerms {
  float k, scale, gradient_scale;
  Power power;
};

}  // namespace hp::cuda
