#pragma once

#include "backend/activation_rules.h"
#include "backend/cpu/vec.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

// A plain ReLU within the op before it or behind it, with the bits of an op of its own (activation::Relu, slope 0). T
// is float or BFloat16, as the tensor between the two holds it.
namespace hp {

/// What a tensor of T holds of a value.
template <typename T, int W>
inline FloatVec<W> Stored(FloatVec<W> value) {
  if constexpr (std::is_same_v<T, float>) return value;
  return std::bit_cast<FloatVec<W>>(RoundedBits<W>(value) << 16);
}

/// Stores the ReLU of what a tensor of T holds of `x`.
template <typename T, int W>
inline void StoreRelu(T* to, FloatVec<W> x) {
  const FloatVec<W> stored = Stored<T, W>(x), y = stored < 0 ? 0 * stored : stored;
  if constexpr (std::is_same_v<T, float>) {
    Store<W>(to, y);
  } else {  // rounded already
    const auto halves = __builtin_convertvector(std::bit_cast<WordVec<W>>(y) >> 16, typename VecTypes<W>::Halves);
    std::memcpy(to, &halves, sizeof(halves));
  }
}

/// The gradient of the ReLU's input from that of its output, `dy`. @param x the input, or the output. What a tensor of
/// bfloat16 holds of 2^-134 and less is 0.
template <typename T, int W>
inline FloatVec<W> ReluGradient(FloatVec<W> x, FloatVec<W> dy) {
  constexpr float kZero = std::is_same_v<T, float> ? 0.0f : 0x1p-134f;
  return x > kZero ? dy : 0 * dy;
}

}  // namespace hp
