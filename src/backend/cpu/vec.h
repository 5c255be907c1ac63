#pragma once

#include "base/bfloat16.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

// Loops over channels as loops over vectors of compile-time width: ForEachChunk cuts the channels, the body works on
// FloatVec<W>. W is 16, 8, 4 or 1, as far as the host's registers are as wide.
namespace hp {

/// Floats of the widest register that compilers use here. Of a wider vector GCC 12 makes scalar code as soon as two are
/// compared: with AVX2 a max pooling of 16 lanes took seven times as long as of 8.
#if defined(__AVX512F__)
constexpr int kMostLanes = 16;
#elif defined(__AVX2__)
constexpr int kMostLanes = 8;
#else
constexpr int kMostLanes = 4;
#endif

/// W floats, or integers, that the compiler keeps in vector registers (GCC's and Clang's vector extensions).
template <int W>
struct VecTypes {
  typedef float Floats __attribute__((vector_size(4 * W)));
  typedef int32_t Ints __attribute__((vector_size(4 * W)));
  typedef uint32_t Words __attribute__((vector_size(4 * W)));
  typedef uint16_t Halves __attribute__((vector_size(2 * W)));
};
template <int W>
using FloatVec = typename VecTypes<W>::Floats;
template <int W>
using IntVec = typename VecTypes<W>::Ints;
template <int W>
using WordVec = typename VecTypes<W>::Words;

// Access of W floats at any alignment; each compiles to one instruction.
template <int W>
inline FloatVec<W> Load(const float* from) {
  FloatVec<W> value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
template <int W>
inline void Store(float* to, FloatVec<W> value) {
  std::memcpy(to, &value, sizeof(value));
}

/// What ToBFloat16 makes of each lane.
template <int W>
inline WordVec<W> RoundedBits(FloatVec<W> value) {
  const auto bits = std::bit_cast<WordVec<W>>(value);
  const WordVec<W> rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const IntVec<W> magnitude = std::bit_cast<IntVec<W>>(bits & 0x7fffffff);
  const auto nan = std::bit_cast<WordVec<W>>(magnitude > 0x7f800000);
  return (nan & 0x7fff) | (~nan & rounded);
}

// The same of bfloat16: widened, and rounded as ToBFloat16 does.
template <int W>
inline FloatVec<W> Load(const BFloat16* from) {
  typename VecTypes<W>::Halves halves;
  std::memcpy(&halves, from, sizeof(halves));
  return std::bit_cast<FloatVec<W>>(__builtin_convertvector(halves, typename VecTypes<W>::Words) << 16);
}
template <int W>
inline void Store(BFloat16* to, FloatVec<W> value) {
  const auto halves = __builtin_convertvector(RoundedBits<W>(value), typename VecTypes<W>::Halves);
  std::memcpy(to, &halves, sizeof(halves));
}

/// Elements up to which a loop stays on the calling thread: waking others costs some microseconds.
constexpr int64_t kSerialElements = 8192;

/// Cuts `channels` into pieces of up to kMostLanes (16, 8, 4 or 1) and calls body(width, first channel), the width as a
/// constant:
/// `[&](auto width, int64_t c) { constexpr int W = decltype(width)::value; ... }`.
template <typename Body>
inline void ForEachChunk(int64_t channels, const Body& body) {
  int64_t c = 0;
  if constexpr (kMostLanes >= 16) {
    for (; c + 16 <= channels; c += 16) body(std::integral_constant<int, 16>(), c);
  }
  if constexpr (kMostLanes >= 8) {
    for (; c + 8 <= channels; c += 8) body(std::integral_constant<int, 8>(), c);
  }
  for (; c + 4 <= channels; c += 4) body(std::integral_constant<int, 4>(), c);
  for (; c < channels; ++c) body(std::integral_constant<int, 1>(), c);
}

}  // namespace hp
