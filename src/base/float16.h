#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace hp {

/// The value of an IEEE 754 binary16 as a float32, which has all of them. Pure; any thread.
inline float FromFloat16(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, fraction = bits & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | fraction << 13);  // infinity, not a number
  if (exponent == 0) return std::copysign(std::ldexp(static_cast<float>(fraction), -24), sign != 0 ? -1.0f : 1.0f);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

}  // namespace hp
