#pragma once

#include "backend/cpu/onednn.h"

#include <cstddef>
#include <cstdint>

namespace hp::onednn {

/// C [m, n] = (C +) A B by oneDNN's matmul, made once for its sizes. It packs B in each call unless the caller does,
/// and A unless its rows are neighbours: for an A that is far larger than B, or for factors of bfloat16.
class MatrixProduct {
 public:
  struct Sizes {
    int64_t m, n, k;
  };
  /// A matrix by the elements from one row to the next and from one column to the next, of which one is 1.
  struct Factor {
    int64_t row_stride, column_stride;
    ElementType element = ElementType::kFloat32;
    bool packed = false;  ///< of B: it has b_format() instead, in which the caller writes it
  };
  /// Where C is: float32.
  struct Target {
    int64_t row_stride;
    bool add = false;  ///< to what stands there
  };

  /// A [m, k], B [k, n]. Throws dnnl::error.
  MatrixProduct(const Context& context, const Sizes& sizes, const Factor& a, const Factor& b, const Target& c);
  /// One that Run computes on the calling thread alone; several may call it at once.
  static MatrixProduct OfOneThread(const Context& context, const Sizes& sizes, const Factor& a, const Factor& b,
                                   const Target& c);

  /// Whether it is oneDNN's plain loops, a hundred times as slow.
  bool is_reference() const { return IsReference(primitive_desc_); }
  dnnl::memory::desc b_format() const { return primitive_desc_.weights_desc(); }
  /// Of what Run needs; aligned to 64 bytes.
  size_t scratch_bytes() const { return primitive_desc_.scratchpad_desc().get_size(); }
  /// By all threads of the team; done on return. Throws std::bad_alloc if oneDNN is out of memory.
  void Run(const Context& context, const void* a, const void* b, float* c, std::byte* scratch) const;

 private:
  dnnl::matmul::primitive_desc primitive_desc_;
  dnnl::matmul primitive_;
};

}  // namespace hp::onednn
