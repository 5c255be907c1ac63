#pragma once

#include <algorithm>
#include <cstdint>

namespace hp {

/// Elements in one piece of an elementwise loop: 64 KiB, so that a piece of two or three tensors stays in the L2 cache
/// when a loop goes over it several times. Less work than that is not worth waking the other threads for.
constexpr int64_t kChunkElements = 16384;

/// Calls body(i) for i in [0, items), on all threads of the OpenMP team if `elements` is above kChunkElements, else on
/// the calling thread. Items must not depend on each other; then the result does not depend on the number of threads.
/// @param elements roughly those of all items together, more where an element costs much more than a copy.
template <typename Body>
void ForItems(int64_t items, int64_t elements, const Body& body) {
#pragma omp parallel for schedule(static) if (elements > kChunkElements)
  for (int64_t i = 0; i < items; ++i) body(i);
}

/// Calls body(begin, end) for consecutive pieces of at most kChunkElements of [0, count), as ForItems does.
template <typename Body>
void ForChunks(int64_t count, const Body& body) {
  const int64_t chunks = (count + kChunkElements - 1) / kChunkElements;
  ForItems(chunks, count,
           [&](int64_t chunk) { body(chunk * kChunkElements, std::min(count, (chunk + 1) * kChunkElements)); });
}

}  // namespace hp
