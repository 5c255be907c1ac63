#pragma once

#include "base/host_device.h"

#include <cmath>

// What LRN's kernels share. Only for .cu files.
namespace hp::cuda {

/// s^-3/4 and s^-7/4, which every published net has, without a logarithm.
struct ThreeQuarters {
  HP_HOST_DEVICE float operator()(float s, float* next) const {
    const float root = rsqrtf(s), power = root * sqrtf(root);
    *next = power * (root * root);
    return power;
  }
};

/// s^-beta and s^-(beta+1).
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
