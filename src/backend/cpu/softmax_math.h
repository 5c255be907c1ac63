#pragma once

#include <cstdint>

namespace hp {

/// What an exponential costs, in elements that are only copied: for ForItems.
constexpr int64_t kExpCost = 8;

/// y = exp(x) / sum of exp(x) over the middle of [outer, classes, inner]; x and y may be the same memory. The largest
/// x is subtracted first; a NaN or infinity in x gives NaN in y. All threads of the team; each sum is one thread's.
void ComputeSoftmax(const float* x, int64_t outer, int64_t classes, int64_t inner, float* y);

/// dx = y * (dy - sum of dy * y), the sum over the middle of [outer, classes, inner]; y is ComputeSoftmax's result. dy
/// and dx may be the same memory.
void ComputeSoftmaxGradient(const float* y, const float* dy, int64_t outer, int64_t classes, int64_t inner, float* dx);

}  // namespace hp
