#pragma once

#include "backend/cuda/gpu.h"
#include "tensor/tensor.h"

#include <span>
#include <vector>

// Sums of tensors, put into `stream`; all memory is the GPU's. CopyLayout is in ops.h.
namespace hp::cuda {

/// The addresses of those tensors that are not null.
inline std::vector<const void*> WantedData(std::span<const Tensor> tensors) {
  std::vector<const void*> data;
  for (const Tensor& tensor : tensors) {
    if (tensor.data != nullptr) data.push_back(tensor.data);
  }
  return data;
}

/// to = sources[0] + sources[1] + ..., all described by `desc`, added in float32 in that order; zeros without sources.
void Sum(const GpuStream& stream, const TensorDesc& desc, std::span<const void* const> sources, void* to);

/// The same with sources in dense NCHW and float32, as other nodes send them, of the shape of `to_desc`.
void SumFromDense(const GpuStream& stream, std::span<const void* const> sources, const TensorDesc& to_desc, void* to);

}  // namespace hp::cuda
