#pragma once

#include "backend/cpu/onednn.h"

#include <cstddef>
#include <cstdint>

namespace hp::onednn {

/// C [m, n] = (C +) A B, C in rows of n floats, by oneDNN's matmul, made once for its sizes. It packs B in each call,
/// and A unless its rows are neighbours: for an A that is far larger than B, or for factors of bfloat16.
class MatrixProduct {
 public:
  /// A matrix by the elements from one row to the next and from one column to the next, of which one is 1.
  struct Factor {
    int64_t row_stride, column_stride;
    ElementType element = ElementType::kFloat32;
  };

  /// A [m, k], B [k, n]. @param add to what stands in C. Throws dnnl::error.
  MatrixProduct(const Context& context, int64_t m, int64_t n, int64_t k, const Factor& a, const Factor& b, bool add);
  /// Whether it is oneDNN's plain loops, a hundred times as slow.
  bool is_reference() const { return IsReference(primitive_desc_); }
  /// Of what Run needs; aligned to 64 bytes.
  size_t scratch_bytes() const { return primitive_desc_.scratchpad_desc().get_size(); }
  /// By all threads of the team; done on return. Throws std::bad_alloc if oneDNN is out of memory.
  void Run(const Context& context, const void* a, const void* b, float* c, std::byte* scratch) const;

 private:
  dnnl::matmul::primitive_desc primitive_desc_;
  dnnl::matmul primitive_;
};

}  // namespace hp::onednn
