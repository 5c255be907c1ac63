#pragma once

#include "backend/cuda/gpu.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <span>
#include <vector>

// Copies and sums that several ops need; CopyLayout is in ops.h.
namespace hp::cuda {

/// The memory of those tensors that have any.
inline std::vector<const float*> WantedData(std::span<const Tensor> tensors) {
  std::vector<const float*> data;
  for (const Tensor& tensor : tensors) {
    if (tensor.data != nullptr) data.push_back(tensor.data);
  }
  return data;
}

/// to = from; nothing where both are the same memory.
void CopyFlat(const GpuStream& stream, int64_t count, const float* from, float* to);

/// to[i] = sources[0][i] + sources[1][i] + ..., added in that order; zeros without sources.
void SumFlat(const GpuStream& stream, int64_t count, std::span<const float* const> sources, float* to);

/// The same from dense NCHW into the layout of `to_desc`.
void SumFromDense(const GpuStream& stream, std::span<const float* const> sources, const TensorDesc& to_desc, float* to);

}  // namespace hp::cuda
