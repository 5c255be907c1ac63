#pragma once

#include "backend/cuda/gpu.h"
#include "tensor/tensor.h"

#include <cstdint>

namespace hp::cuda {

/// Floats of scratch that ColumnSums needs for these sizes.
int64_t ColumnSumsScratch(int64_t rows, int64_t columns);

/// Puts to[c] = (to[c] +) the sum of column c of from [rows, columns] into `stream`: a bias gradient. `from` is dense,
/// of type `element`; sums are float32, in an order that only the sizes determine. @param to [columns].
/// @param scratch [ColumnSumsScratch(rows, columns)]. All memory is the GPU's.
void ColumnSums(const GpuStream& stream, int64_t rows, int64_t columns, ElementType element, const void* from, bool add,
                float* to, float* scratch);

}  // namespace hp::cuda
