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

/// The gradient of a ReLU in place, and a bias gradient of what it becomes, in one pass: dy becomes dy * ReLU'(y), and
/// `sums` [ColumnSumsScratch(rows, columns)] what AddColumnSums makes the sums of. @param sums null: no bias gradient.
/// y and dy [rows, columns] are dense, of type `element`.
void ReluColumnSums(const GpuStream& stream, int64_t rows, int64_t columns, ElementType element, const void* y,
                    void* dy, float* sums);
/// The rest of ColumnSums, behind ReluColumnSums: the same bits as from ColumnSums of its dy.
void AddColumnSums(const GpuStream& stream, int64_t rows, int64_t columns, const float* sums, bool add, float* to);

/// Puts to[c] = (to[c] +) the sum of sums[p][c] over `pieces` into `stream`, for sums [pieces, columns].
void AddPieces(const GpuStream& stream, int64_t pieces, int64_t columns, const float* sums, bool add, float* to);

}  // namespace hp::cuda
