#pragma once

#include <cstdint>

namespace hp {

/// d_w[o][k] = (d_w[o][k] +) the sum over r of dy[r][o] x[r][k], r ascending, for o < outputs and k < columns: what an
/// inner product's weight gradient is for a few of its outputs. On the calling thread alone. Every element is summed in
/// the same order whatever piece it is computed in.
///
/// Made for few rows of d_w and few samples: x is read through the cache as it is, where a library's sgemm copies it
/// into its own layout for each call.
void OuterProductSum(int64_t rows, int64_t outputs, int64_t columns, const float* dy, int64_t dy_stride, const float* x,
                     int64_t x_stride, float* d_w, int64_t d_w_stride, bool accumulate);

}  // namespace hp
