#pragma once

#include "backend/cuda/gpu.h"
#include "tensor/tensor.h"

#include <cstdint>

namespace hp::cuda {

/// Puts y[r][c] += bias[c] into `stream`, for y [rows, columns] and bias [columns], both of type `element` and in the
/// GPU's memory; computed in float32. @param stride elements from one row of y to the next. @param relu y becomes the
/// ReLU of it.
void AddBias(const GpuStream& stream, int64_t rows, int64_t columns, int64_t stride, const void* bias,
             ElementType element, void* y, bool relu = false);

/// The same with the bias [C] of each channel, for y of either layout (NCHW: float32).
void AddChannelBias(const GpuStream& stream, const TensorDesc& desc, const void* bias, void* y, bool relu = false);

}  // namespace hp::cuda
