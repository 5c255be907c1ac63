#pragma once

#include "backend/cuda/gpu.h"
#include "tensor/tensor.h"

namespace hp::cuda {

/// Puts to += from into `stream`. @param from_desc NHWC, of any element type. @param to [N, C, H, W] of the same shape,
/// dense float32. For small tensors (weight gradients): reads of `from` are strided.
void AddNhwcToDense(const GpuStream& stream, const TensorDesc& from_desc, const void* from, float* to);

}  // namespace hp::cuda
