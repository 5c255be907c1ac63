#pragma once

#include "backend/cuda/launch.h"

#include <cstdint>
#include <vector>

// Work on tiles by way of the shared memory of a block of threads. Only for .cu files.
namespace hp {

#if defined(__CUDACC__)

/// For each tile: all threads of a block fill the shared memory, then (after a barrier) all use it.
///   struct Tiles {
///     static constexpr int kFloats = ...;                              // of shared memory
///     void Fill(int64_t tile, int thread, float* shared) const;        // thread in [0, kBlockThreads)
///     void Use(int64_t tile, int thread, const float* shared) const;
///   };
template <typename Tiles>
__global__ void __launch_bounds__(kBlockThreads) ForTilesKernel(int64_t count, Tiles tiles) {
  __shared__ float shared[Tiles::kFloats];
  const int thread = threadIdx.x;
  for (int64_t tile = blockIdx.x; tile < count; tile += gridDim.x) {
    tiles.Fill(tile, thread, shared);
    __syncthreads();
    tiles.Use(tile, thread, shared);
    __syncthreads();
  }
}

/// Calls tiles.Fill and then tiles.Use for each tile in [0, count) and each thread, tiles in any order.
template <typename Tiles>
void ForTiles(const GpuStream& stream, int64_t count, const Tiles& tiles) {
  if (count == 0) return;
  if (stream.host != nullptr) {
    stream.host->Enqueue([count, tiles] {
      std::vector<float> shared(Tiles::kFloats);
      for (int64_t tile = 0; tile < count; ++tile) {
        for (int thread = 0; thread < kBlockThreads; ++thread) tiles.Fill(tile, thread, shared.data());
        for (int thread = 0; thread < kBlockThreads; ++thread) tiles.Use(tile, thread, shared.data());
      }
    });
    return;
  }
  const unsigned grid = static_cast<unsigned>(count < (1 << 20) ? count : (1 << 20));
  ForTilesKernel<<<grid, kBlockThreads, 0, static_cast<cudaStream_t>(stream.cuda)>>>(count, tiles);
}

#endif

}  // namespace hp
