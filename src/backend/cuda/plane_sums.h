#pragma once

#include "backend/cuda/gpu.h"
#include "base/shape.h"

#include <cstdint>

namespace hp::cuda {

// What column_sums.h does for matrices and NHWC, for dense NCHW in float32: each channel has a plane in every image.

/// Floats of scratch that PlaneSums needs for a tensor [N, C, ...].
int64_t PlaneSumsScratch(const Shape& shape);

/// Puts to[c] = (to[c] +) the sum of from [N, C, ...] over all but its channels into `stream`: a bias gradient, in an
/// order that only the shape determines. @param to [C]. @param scratch [PlaneSumsScratch(shape)].
void PlaneSums(const GpuStream& stream, const Shape& shape, const float* from, bool add, float* to, float* scratch);

/// The gradient of a ReLU in place, and a bias gradient of what it becomes, in one pass: dy becomes dy * ReLU'(y), and
/// `sums` [PlaneSumsScratch(shape)] what AddPlaneSums makes the sums of. @param sums null: no bias gradient.
void ReluPlaneSums(const GpuStream& stream, const Shape& shape, const float* y, float* dy, float* sums);
/// The rest of PlaneSums, behind ReluPlaneSums: the same bits as from PlaneSums of its dy.
void AddPlaneSums(const GpuStream& stream, const Shape& shape, const float* sums, bool add, float* to);

}  // namespace hp::cuda
