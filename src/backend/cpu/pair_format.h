#pragma once

#include "backend/cpu/onednn.h"
#include "base/bfloat16.h"

#include <cstdint>
#include <optional>

namespace hp::onednn {

/// The format in which oneDNN's products of bfloat16 want their second factor [rows, columns]: pairs of neighbouring
/// rows are words, 16 pairs of a block of columns lie one behind the other ("16a64b2a"), and what is not there is zero.
class PairFormat {
 public:
  /// Rows that lie in one block.
  static constexpr int64_t kRows = 32;

  /// @param rows that Write writes: at most those of `desc`, a matrix; the others become zero. @return nullopt: it is
  /// of another format.
  static std::optional<PairFormat> Of(const dnnl::memory::desc& desc, int64_t rows);

  /// Rounds rows [begin, end) of `from`, which lie `stride` elements apart, to the matrix at `to`; those behind `end`
  /// in its last block become zero if `end` is the last row. On the calling thread; several may call it at once for
  /// different rows.
  /// @param from row `begin`. @param begin even, and so is `end` unless it is the last row. @param to aligned to 64
  /// bytes.
  /// @param cached whether it is read soon. @tparam T float or BFloat16.
  template <typename T>
  void Write(const T* from, int64_t stride, int64_t begin, int64_t end, bool cached, BFloat16* to) const;

 private:
  PairFormat() = default;

  int64_t rows_ = 0, columns_ = 0;              // that are written
  int64_t block_ = 0;                           // columns of a block
  int64_t row_blocks_ = 0, column_blocks_ = 0;  // with their padding
  int64_t row_stride_ = 0, column_stride_ = 0;  // elements from one block to the next
};

extern template void PairFormat::Write(const float*, int64_t, int64_t, int64_t, bool, BFloat16*) const;
extern template void PairFormat::Write(const BFloat16*, int64_t, int64_t, int64_t, bool, BFloat16*) const;

}  // namespace hp::onednn
