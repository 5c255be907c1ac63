#pragma once

#include "base/host_device.h"

#include <cmath>
#include <variant>

// Functions of one element, y = f(x), and their derivatives, the same on all devices: a backend has one op, which goes
// over the elements, for all of them. Branches are choices between two values that are both computed, so that a CPU's
// loops become vectors. A NaN is handed on, unless f does not depend on x at all.
namespace hp::activation {

/// What a derivative is computed from, which the op then keeps in memory; an op that needs its output alone may
/// overwrite its input.
enum class From { kNothing, kInput, kOutput };

/// f(x) = x, for x < 0 slope * x. The sign of y is that of x unless the slope is negative.
template <From from>
struct Relu {
  static constexpr From kFrom = from;
  float slope = 0;
  HP_HOST_DEVICE float Value(float x) const { return x < 0 ? slope * x : x; }
  HP_HOST_DEVICE float Derivative(float xy) const { return xy > 0 ? 1.0f : slope; }
};

struct Sigmoid {
  static constexpr From kFrom = From::kOutput;
  HP_HOST_DEVICE float Value(float x) const { return 1 / (1 + expf(-x)); }
  HP_HOST_DEVICE float Derivative(float y) const { return y * (1 - y); }
};

struct Tanh {
  static constexpr From kFrom = From::kOutput;
  HP_HOST_DEVICE float Value(float x) const { return tanhf(x); }
  HP_HOST_DEVICE float Derivative(float y) const { return 1 - y * y; }
};

/// f(x) = x, for x <= 0 alpha * (exp(x) - 1). The sign of y is that of x unless alpha is negative.
/// Source: Clevert, Unterthiner, Hochreiter, "Fast and Accurate Deep Network Learning by Exponential Linear Units",
/// 2015 (arXiv:1511.07289).
template <From from>
struct Elu {
  static constexpr From kFrom = from;
  float alpha = 1;
  HP_HOST_DEVICE float Value(float x) const {
    const float below = alpha * (expf(x > 0 ? 0.0f : x) - 1);
    return x > 0 ? x : below;
  }
  HP_HOST_DEVICE float Derivative(float xy) const {
    const float below = from == From::kOutput ? xy + alpha : alpha * expf(xy > 0 ? 0.0f : xy);
    return xy > 0 ? 1.0f : below;
  }
};

/// f(x) = |x|, whose derivative at 0 counts as 0.
struct Abs {
  static constexpr From kFrom = From::kInput;
  HP_HOST_DEVICE float Value(float x) const { return fabsf(x); }
  HP_HOST_DEVICE float Derivative(float x) const { return (x > 0 ? 1.0f : 0.0f) - (x < 0 ? 1.0f : 0.0f); }
};

/// f(x) = shift + scale * x.
struct Linear {
  static constexpr From kFrom = From::kNothing;
  float scale = 1, shift = 0;
  HP_HOST_DEVICE float Value(float x) const { return shift + scale * x; }
  HP_HOST_DEVICE float Derivative(float) const { return scale; }
};

/// f(x) = value, even of a NaN.
struct Constant {
  static constexpr From kFrom = From::kNothing;
  float value = 0;
  HP_HOST_DEVICE float Value(float) const { return value; }
  HP_HOST_DEVICE float Derivative(float) const { return 0; }
};

/// f(x) = (shift + scale * x)^2.
struct Square {
  static constexpr From kFrom = From::kInput;
  float scale = 1, shift = 0;
  HP_HOST_DEVICE float Value(float x) const { return (shift + scale * x) * (shift + scale * x); }
  HP_HOST_DEVICE float Derivative(float x) const { return 2 * scale * (shift + scale * x); }
};

/// f(x) = (shift + scale * x)^power.
struct Power {
  static constexpr From kFrom = From::kInput;
  float power = 1, scale = 1, shift = 0;
  HP_HOST_DEVICE float Value(float x) const { return powf(shift + scale * x, power); }
  HP_HOST_DEVICE float Derivative(float x) const { return power * scale * powf(shift + scale * x, power - 1); }
};

/// f(x) = factor * exp(rate * x).
struct Exp {
  static constexpr From kFrom = From::kOutput;
  float rate = 1, factor = 1;
  HP_HOST_DEVICE float Value(float x) const { return factor * expf(rate * x); }
  HP_HOST_DEVICE float Derivative(float y) const { return rate * y; }
};

/// f(x) = factor * ln(shift + scale * x).
struct Log {
  static constexpr From kFrom = From::kInput;
  float factor = 1, scale = 1, shift = 0;
  HP_HOST_DEVICE float Value(float x) const { return factor * logf(shift + scale * x); }
  HP_HOST_DEVICE float Derivative(float x) const { return factor * scale / (shift + scale * x); }
};

/// f(x) = ln(1 + exp(x)), without an exponential that overflows. The derivative is 1 - exp(-y).
struct Bnll {
  static constexpr From kFrom = From::kOutput;
  HP_HOST_DEVICE float Value(float x) const { return (x < 0 ? 0.0f : x) + log1pf(expf(-fabsf(x))); }
  HP_HOST_DEVICE float Derivative(float y) const { return -expm1f(-y); }
};

/// f(x) = 1 for x > threshold, else 0. It has no gradient.
struct Threshold {
  static constexpr From kFrom = From::kNothing;
  float threshold = 0;
  HP_HOST_DEVICE float Value(float x) const {
    const float below = x <= threshold ? 0.0f : x;
    return x > threshold ? 1.0f : below;
  }
  HP_HOST_DEVICE float Derivative(float) const { return 0; }
};

/// f(x) = x * sigmoid(beta * x).
/// Source: Ramachandran, Zoph, Le, "Searching for Activation Functions", 2017 (arXiv:1710.05941).
struct Swish {
  static constexpr From kFrom = From::kInput;
  float beta = 1;
  HP_HOST_DEVICE float Value(float x) const { return x / (1 + expf(-beta * x)); }
  HP_HOST_DEVICE float Derivative(float x) const {
    const float s = 1 / (1 + expf(-beta * x));
    return s * (1 + beta * x * (1 - s));
  }
};

/// f(x) = x within [min, max], else the nearer end; the ends have the derivative 1.
struct Clip {
  static constexpr From kFrom = From::kInput;
  float min = 0, max = 0;
  HP_HOST_DEVICE float Value(float x) const {
    const float low = x < min ? min : x;
    return low > max ? max : low;
  }
  HP_HOST_DEVICE float Derivative(float x) const { return x >= min && x <= max ? 1.0f : 0.0f; }
};

}  // namespace hp::activation

namespace hp {

/// Elementwise y = f(x), in any layout; may work in place as far as the derivative does not need x.
using ActivationDesc =
    std::variant<activation::Relu<activation::From::kOutput>, activation::Relu<activation::From::kInput>,
                 activation::Sigmoid, activation::Tanh, activation::Elu<activation::From::kOutput>,
                 activation::Elu<activation::From::kInput>, activation::Abs, activation::Linear, activation::Constant,
                 activation::Square, activation::Power, activation::Exp, activation::Log, activation::Bnll,
                 activation::Threshold, activation::Swish, activation::Clip>;

}  // namespace hp
