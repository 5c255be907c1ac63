#pragma once

#include <algorithm>
#include <cstdint>

namespace hp {

/// Elements in one piece of an elementwise loop: 64 KiB, so that a piece of two or three tensors stays in the L2 cache
/// when a loop goes over it several times.
constexpr int64_t kChunkElements = 16384;

/// Calls body(begin, end) for the pieces of [0, count), on all threads of the team. What each piece computes must not
/// depend on the others; then neither does the result on the number of threads.
template <typename Body>
void ForChunks(int64_t count, const Body& body) {
  const int64_t chunks = (count + kChunkElements - 1) / kChunkElements;
#pragma omp parallel for schedule(static) if (chunks > 1)
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    body(chunk * kChunkElements, std::min(count, (chunk + 1) * kChunkElements));
  }
}

}  // namespace hp
