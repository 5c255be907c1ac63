#pragma once

#include "backend/cpu/vec.h"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

// Large copies of weights in bfloat16, which nobody reads before they have left the caches.
namespace hp {

/// Stores past the caches: a line that is not there need not be read from memory before it is written.
/// @param to aligned to 16 bytes. @tparam V of a multiple of 16 bytes.
template <typename V>
inline void StoreUncached(void* to, V value) {
#if defined(__SSE2__)
  __m128i quarters[sizeof(V) / 16];
  std::memcpy(quarters, &value, sizeof(V));
  for (size_t i = 0; i < sizeof(V) / 16; ++i) _mm_stream_si128(static_cast<__m128i*>(to) + i, quarters[i]);
#else
  std::memcpy(to, &value, sizeof(V));
#endif
}

/// After the last StoreUncached of a thread, before another reads.
inline void FenceUncached() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/// to[i] = from[i], rounded, past the caches. By the calling thread. @param to aligned to 16 bytes.
inline void RoundUncached(const float* from, int64_t count, BFloat16* to) {
  constexpr int W = kMostLanes >= 8 ? kMostLanes : 8;
  int64_t i = 0;
  for (; i + W <= count; i += W) {
    StoreUncached(to + i, __builtin_convertvector(RoundedBits<W>(Load<W>(from + i)), typename VecTypes<W>::Halves));
  }
  for (; i < count; ++i) to[i] = from[i];
  FenceUncached();
}

}  // namespace hp
