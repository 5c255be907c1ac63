#pragma once

#include <bit>
#include <cstdint>

namespace hp {

// bfloat16 on the host: the upper half of a float32. Pure; any thread. Without branches, so that loops over them are
// vectorized.

inline float FromBFloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

/// Rounds to nearest, ties to even. A NaN stays a NaN.
inline uint16_t ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : rounded);
}

/// One of them in memory, for loops that compute in float32: it is read as a float, and what is written is rounded.
struct BFloat16 {
  uint16_t bits;

  operator float() const { return FromBFloat16(bits); }  // NOLINT: as a float converts
  /// No constructor: a loop with a temporary object is not vectorized.
  BFloat16& operator=(float value) {
    bits = ToBFloat16(value);
    return *this;
  }
};

}  // namespace hp
