#pragma once

#include "backend/cuda/gpu.h"
#include "tensor/shape.h"

namespace hp::cuda {

/// to += from, for a tensor of `shape` that is NHWC in `from` and dense NCHW in `to`.
void AddNhwcToDense(const GpuStream& stream, const Shape& shape, const float* from, float* to);

}  // namespace hp::cuda
