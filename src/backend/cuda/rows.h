#pragma once

#include "backend/cuda/launch.h"

#include "glog/logging.h"

#include <algorithm>
#include <cstdint>

// Loops over rows and what is in them, without a division for each element. Only for .cu files.
namespace hp {

#if defined(__CUDACC__)

template <typename Functor>
__global__ void __launch_bounds__(kBlockThreads) ForEachInRowsKernel(int64_t rows, uint32_t width, Functor functor) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= width) return;
  const int64_t stride = int64_t{gridDim.y} * blockDim.y;
  for (int64_t row = int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < rows; row += stride) functor(row, i);
}

/// Calls functor(int64_t row, uint32_t i) for each row in [0, rows) and i in [0, width), in any order and concurrently.
/// Consecutive threads have consecutive i; short rows share a block.
/// @param width below 2^31 (CHECK).
template <typename Functor>
void ForEachInRows(const GpuStream& stream, int64_t rows, int64_t width, const Functor& functor) {
  CHECK_LT(width, int64_t{1} << 31);
  if (rows == 0 || width == 0) return;
  if (stream.host != nullptr) {
    stream.host->Enqueue([rows, width, functor] {
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t i = 0; i < width; ++i) functor(row, static_cast<uint32_t>(i));
      }
    });
    return;
  }
  unsigned across = 32;  // threads of a block along a row
  while (across < kBlockThreads && across < width) across *= 2;
  const dim3 block(across, kBlockThreads / across);
  const int64_t columns = (width + across - 1) / across, lines = (rows + block.y - 1) / block.y;
  const dim3 grid(static_cast<unsigned>(columns), static_cast<unsigned>(std::min<int64_t>(lines, 65535)));
  ForEachInRowsKernel<<<grid, block, 0, static_cast<cudaStream_t>(stream.cuda)>>>(rows, static_cast<uint32_t>(width),
                                                                                  functor);
}

#endif

}  // namespace hp
