#pragma once

#include "backend/cuda/gpu.h"
#include "tensor/tensor.h"

namespace hp::cuda {

/// to += from, which is NHWC; `to` is dense NCHW and float32.
void AddNhwcToDense(const GpuStream& stream, const TensorDesc& from_desc, const void* from, float* to);

}  // namespace hp::cuda
