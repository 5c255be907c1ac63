#pragma once

#include <cstdint>

namespace hp {

/// C [m, n] = (C +) A B, row-major, by oneDNN: A is [m, k], B [k, n]; 'T' instead of 'N' takes an operand transposed.
/// Strides are floats from one row to the next. By all threads of the team, inside a parallel region by the calling one
/// alone. Throws std::bad_alloc if oneDNN is out of memory.
void Gemm(char transpose_a, char transpose_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t a_stride,
          const float* b, int64_t b_stride, bool add, float* c, int64_t c_stride);

}  // namespace hp
