#pragma once

#include "base/host_device.h"

// Functions of one element and a parameter, y = f(x, p), where a parameter is that of many elements (of a channel,
// say), and their gradients, the same on all devices: a backend has one op, which goes over the elements, for all of
// them.
//   float Value(x, p) const; float InputGradient(x, p, dy) const;
//   float Weight(x) const;   dy times this is what an element adds to the gradient of p
//   static constexpr bool kBends, kWeighs;   whether InputGradient, and Weight, read x
namespace hp::broadcast {

/// f(x, p) = x p.
struct Product {
  static constexpr bool kBends = false, kWeighs = true;
  HP_HOST_DEVICE float Value(float x, float p) const { return x * p; }
  HP_HOST_DEVICE float InputGradient(float, float p, float dy) const { return dy * p; }
  HP_HOST_DEVICE float Weight(float x) const { return x; }
};

/// f(x, p) = x + p.
struct Sum {
  static constexpr bool kBends = false, kWeighs = false;
  HP_HOST_DEVICE float Value(float x, float p) const { return x + p; }
  HP_HOST_DEVICE float InputGradient(float, float, float dy) const { return dy; }
  HP_HOST_DEVICE float Weight(float) const { return 1; }
};

/// f(x, p) = x, for x <= 0 p x.
/// Source: He, Zhang, Ren, Sun, "Delving Deep into Rectifiers", 2015 (arXiv:1502.01852).
struct Prelu {
  static constexpr bool kBends = true, kWeighs = true;
  HP_HOST_DEVICE float Value(float x, float p) const { return x > 0 ? x : p * x; }
  HP_HOST_DEVICE float InputGradient(float x, float p, float dy) const { return x > 0 ? dy : p * dy; }
  HP_HOST_DEVICE float Weight(float x) const { return x > 0 ? 0.0f : x; }
};

}  // namespace hp::broadcast
