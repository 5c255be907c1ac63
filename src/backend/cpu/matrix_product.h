#pragma once

#include "backend/cpu/onednn.h"

#include <cstddef>
#include <cstdint>

namespace hp::onednn {

/// C [m, n] = (C +) A B^T, row-major, by oneDNN's matmul, made once for its sizes. A [m, k] is read where it is, and B
/// [n, k] packed in each call: for an A that is far larger than B. With AVX-512 it is faster than Gemm, else it is the
/// same.
class MatrixProduct {
 public:
  /// @param a_stride, b_stride floats from one row to the next. @param add to what stands in C. Throws dnnl::error.
  MatrixProduct(const Context& context, int64_t m, int64_t n, int64_t k, int64_t a_stride, int64_t b_stride, bool add);
  /// Of what Run needs; aligned to 64 bytes.
  size_t scratch_bytes() const { return primitive_desc_.scratchpad_desc().get_size(); }
  /// By all threads of the team; done on return. Throws std::bad_alloc if oneDNN is out of memory.
  void Run(const Context& context, const float* a, const float* b, float* c, std::byte* scratch) const;

 private:
  dnnl::matmul::primitive_desc primitive_desc_;
  dnnl::matmul primitive_;
};

}  // namespace hp::onednn
