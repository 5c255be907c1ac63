#pragma once

#include "backend/cuda/gpu.h"
#include "tensor/tensor.h"

#include <cstdint>

namespace hp::cuda {

/// Floats of scratch that ColumnSums wants.
int64_t ColumnSumsScratch(int64_t rows, int64_t columns);

/// to[c] = (to[c] +) the sum of column c of from [rows, columns] of `element`s, in an order that the sizes alone
/// determine: what a bias gradient is.
void ColumnSums(const GpuStream& stream, int64_t rows, int64_t columns, ElementType element, const void* from, bool add,
                float* to, float* scratch);

}  // namespace hp::cuda
