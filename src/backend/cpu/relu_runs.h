#pragma once

#include "backend/activation_rules.h"
#include "backend/cpu/rounding.h"
#include "base/bfloat16.h"

#include <bit>
#include <cstdint>
#include <type_traits>

// A ReLU within the op before it or behind it, with the bits of an op of its own.
namespace hp {

using ReluRule = activation::Relu<activation::From::kOutput>;

/// A number as a tensor of T, float or BFloat16, holds it.
template <typename T>
inline float Stored(float value) {
  if constexpr (std::is_same_v<T, float>) return value;
  return FromBFloat16(ToBFloat16(value));
}

template <typename T, int W>
inline FloatVec<W> Stored(FloatVec<W> value) {
  if constexpr (std::is_same_v<T, float>) return value;
  return std::bit_cast<FloatVec<W>>(RoundedBits<W>(value) << 16);
}

/// By lane: `a` where the mask is all ones, `b` where it is zero.
template <int W>
inline FloatVec<W> Select(IntVec<W> mask, FloatVec<W> a, FloatVec<W> b) {
  const auto bits = std::bit_cast<WordVec<W>>(mask);
  return std::bit_cast<FloatVec<W>>((bits & std::bit_cast<WordVec<W>>(a)) | (~bits & std::bit_cast<WordVec<W>>(b)));
}

// The rule's functions of W lanes.
template <int W>
inline FloatVec<W> ReluValue(const ReluRule relu, FloatVec<W> x) {
  return Select<W>(x < 0, relu.slope * x, x);
}
template <int W>
inline FloatVec<W> ReluDerivative(const ReluRule relu, FloatVec<W> y) {
  return Select<W>(y > 0, FloatVec<W>{} + 1, FloatVec<W>{} + relu.slope);
}

/// y = the ReLU of y.
inline void ReluRun(const ReluRule relu, int64_t count, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = relu.Value(y[i]);
}

/// dx = the gradient of the ReLU's input, from that of its output y.
template <typename T>
inline void ReluGradientRun(const ReluRule relu, const T* y, int64_t count, float* dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) dx[i] *= relu.Derivative(y[i]);
}

}  // namespace hp
