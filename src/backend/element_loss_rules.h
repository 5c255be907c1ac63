#pragma once

#include "backend/label.h"
#include "backend/reduction_rules.h"
#include "base/host_device.h"

#include <math.h>

// Losses that are a sum over elements of f(x, t), t being the target, and df/dx, the same on all devices: a backend has
// one op for all of them. A NaN is handed on.
//   float Value(x, t) const; float Gradient(x, t) const;
//   static constexpr bool kSymmetric;   df/dt = -df/dx; else targets have no gradient
namespace hp::loss {

/// f(x, t) = (x - t)^2 / 2.
struct SquaredError {
  static constexpr bool kSymmetric = true;
  HP_HOST_DEVICE float Value(float x, float t) const { return 0.5f * (x - t) * (x - t); }
  HP_HOST_DEVICE float Gradient(float x, float t) const { return x - t; }
};

/// f(x, t) = -t ln(s) - (1 - t) ln(1 - s), s = 1 / (1 + exp(-x)), without an exponential that overflows. Elements whose
/// target, read as a label, is `ignored` do not count.
struct SigmoidCrossEntropy {
  static constexpr bool kSymmetric = false;
  bool ignores = false;
  int ignored = 0;
  HP_HOST_DEVICE float Value(float x, float t) const {
    const float value = (x < 0 ? 0.0f : x) - x * t + log1pf(expf(-fabsf(x)));
    return Ignores(t) ? 0.0f : value;
  }
  HP_HOST_DEVICE float Gradient(float x, float t) const { return Ignores(t) ? 0.0f : 1 / (1 + expf(-x)) - t; }
  HP_HOST_DEVICE bool Ignores(float t) const { return ignores && LabelOf(t) == ignored; }
};

/// f(x, t) = max(0, 1 - x) for the label's class (t = 1), max(0, 1 + x) for another one (t = 0), or the square of it.
template <bool squared>
struct Hinge {
  static constexpr bool kSymmetric = false;
  HP_HOST_DEVICE static float Excess(float x, float t) {
    const float excess = t > 0 ? 1 - x : 1 + x;
    return excess <= 0 ? 0.0f : excess;
  }
  HP_HOST_DEVICE float Value(float x, float t) const {
    const float excess = Excess(x, t);
    return squared ? excess * excess : excess;
  }
  HP_HOST_DEVICE float Gradient(float x, float t) const {
    const float excess = Excess(x, t), size = squared ? 2 * excess : (excess == 0 ? 0.0f : 1.0f);
    return t > 0 ? -size : size;
  }
};

/// f(x, t) = -ln(x) for the label's class (t = 1), else 0; x counts as no less than 1e-20.
struct Logistic {
  static constexpr bool kSymmetric = false;
  HP_HOST_DEVICE static float AtLeast(float x) { return x < 1e-20f ? 1e-20f : x; }
  HP_HOST_DEVICE float Value(float x, float t) const { return t > 0 ? -logf(AtLeast(x)) : 0.0f; }
  HP_HOST_DEVICE float Gradient(float x, float t) const { return t > 0 ? -1 / AtLeast(x) : 0.0f; }
};

/// f(x, t) = coeff times what a Reduction adds for x, without targets.
struct Term {
  static constexpr bool kSymmetric = false;
  ReductionRule rule;
  float coeff = 1;
  HP_HOST_DEVICE float Value(float x, float) const { return coeff * rule.Term(x); }
  HP_HOST_DEVICE float Gradient(float x, float) const { return coeff * rule.Slope(x); }
};

}  // namespace hp::loss
