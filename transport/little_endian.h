#pragma once

#include <cstddef>

namespace hp {

// Unsigned numbers as they go over a wire, least significant byte first, at any alignment; compilers make one move of
// it.

/// Writes sizeof(T) bytes to `out`.
template <typename T>
void StoreLittle(std::byte* out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
}

/// Reads sizeof(T) bytes from `in`.
template <typename T>
T LoadLittle(const std::byte* in) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<T>(in[i]) << (8 * i));
  return value;
}

}  // namespace hp
