#pragma once

#include "backend/backend.h"
#include "backend/cpu/row_math.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace hp {

/// 1 / |x|, with a norm of at least 1e-12; a NaN stays.
inline float InverseNorm(const float* x, int64_t count) {
  return static_cast<float>(1 / std::max(std::sqrt(RowDot(x, x, count)), CosineProductDesc::kLeastNorm));
}

/// x = factor * x.
inline void ScaleRow(float factor, int64_t count, float* x) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) x[i] *= factor;
}

/// y = factor * (y - along * x).
inline void ProjectRow(const float* x, float along, float factor, int64_t count, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = factor * (y[i] - along * x[i]);
}

}  // namespace hp
