#pragma once

#include <cstdint>

namespace hp {

/// d_w[o][k] = (d_w[o][k] +) the sum over r of dy[r][o] x[r][k], for o < outputs and k < columns: an inner product's
/// weight gradient for a few of its outputs. dy is [rows, outputs], x [rows, columns], d_w [outputs, columns]; strides
/// are floats from one row to the next. On the calling thread alone; several may call it at once for different outputs.
/// Every element is summed over ascending r, so its bits do not depend on the piece that it is computed in.
/// @param rows at least 1. @param accumulate adds to d_w instead of overwriting it.
///
/// Made for few rows of d_w and few samples: x is read through the cache as it is, where a library's sgemm copies it
/// into its own layout for each call.
void OuterProductSum(int64_t rows, int64_t outputs, int64_t columns, const float* dy, int64_t dy_stride, const float* x,
                     int64_t x_stride, float* d_w, int64_t d_w_stride, bool accumulate);

}  // namespace hp
