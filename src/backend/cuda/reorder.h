#pragma once

#include "backend/cuda/gpu.h"
#include "tensor/tensor.h"

#include <span>
#include <vector>

// Sums that several ops need; CopyLayout is in ops.h.
namespace hp::cuda {

/// The memory of those tensors that have any.
inline std::vector<const void*> WantedData(std::span<const Tensor> tensors) {
  std::vector<const void*> data;
  for (const Tensor& tensor : tensors) {
    if (tensor.data != nullptr) data.push_back(tensor.data);
  }
  return data;
}

/// to = sources[0] + sources[1] + ..., all as `desc` says, added in float32 in that order; zeros without sources.
void Sum(const GpuStream& stream, const TensorDesc& desc, std::span<const void* const> sources, void* to);

/// The same of sources in dense NCHW and float32, which is what other nodes send.
void SumFromDense(const GpuStream& stream, std::span<const void* const> sources, const TensorDesc& to_desc, void* to);

}  // namespace hp::cuda
