#pragma once

#include "backend/cuda/gpu.h"
#include "tensor/tensor.h"

#include <cstdint>

namespace hp::cuda {

/// y[r][c] += bias[c] for y [rows, columns], both of `element`s. @param stride elements from one row of y to the next.
void AddBias(const GpuStream& stream, int64_t rows, int64_t columns, int64_t stride, const void* bias,
             ElementType element, void* y);

}  // namespace hp::cuda
