#pragma once

#include "tensor/tensor.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

// Elements of 16 bits on the host, written without the GPU's own conversions, which are held to them.
namespace hp::test {

// clang 14 knows the type by this name alone, and lets no function return it.
#ifdef __clang__
using Half = __fp16;
#else
using Half = _Float16;
#endif

inline float GetElement(ElementType element, const void* data, int64_t i) {
  if (element == ElementType::kFloat32) return static_cast<const float*>(data)[i];
  const uint16_t bits = static_cast<const uint16_t*>(data)[i];
  if (element == ElementType::kFloat16) {
    Half half;
    std::memcpy(&half, &bits, sizeof(half));
    return static_cast<float>(half);
  }
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

/// Rounded to the nearest, of two that are equally near to the one with an even last digit.
inline void SetElement(ElementType element, float value, void* data, int64_t i) {
  if (element == ElementType::kFloat32) {
    static_cast<float*>(data)[i] = value;
    return;
  }
  uint16_t bits = 0;
  if (element == ElementType::kFloat16) {
    const Half half = static_cast<Half>(value);
    std::memcpy(&bits, &half, sizeof(bits));
  } else if (std::isnan(value)) {
    bits = 0x7fff;
  } else {
    const uint32_t whole = std::bit_cast<uint32_t>(value);
    bits = static_cast<uint16_t>((whole + 0x7fff + (whole >> 16 & 1)) >> 16);
  }
  static_cast<uint16_t*>(data)[i] = bits;
}

/// `value` as an element holds it.
inline float Rounded(ElementType element, float value) {
  float memory = 0;
  SetElement(element, value, &memory, 0);
  return GetElement(element, &memory, 0);
}

inline std::vector<float> GetElements(ElementType element, const void* data, int64_t count) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = GetElement(element, data, i);
  return values;
}

/// Half the distance from 1 to the next number: what rounding may change a value by, relatively.
inline float RoundingError(ElementType element) {
  switch (element) {
    case ElementType::kBFloat16:
      return 1.0f / 256;
    case ElementType::kFloat16:
      return 1.0f / 2048;
    case ElementType::kFloat32:
      break;
  }
  return 1.0f / (1 << 24);
}

}  // namespace hp::test
