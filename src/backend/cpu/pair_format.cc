#include "backend/cpu/pair_format.h"

#include "backend/cpu/rounding.h"

#include <algorithm>
#include <cstring>

namespace hp::onednn {
namespace {

constexpr int64_t kMostColumns = 64;  // of a block

template <int W>
WordVec<W> BitsAt(const float* from) {
  return RoundedBits<W>(Load<W>(from));
}
template <int W>
WordVec<W> BitsAt(const BFloat16* from) {
  typename VecTypes<W>::Halves halves;
  std::memcpy(&halves, from, sizeof(halves));
  return __builtin_convertvector(halves, WordVec<W>);
}

/// A pair for each of `count` columns. @param second null: it counts as zeros.
template <typename T>
void WritePairs(const T* first, const T* second, int64_t count, bool cached, BFloat16* to) {
  constexpr int W = kMostLanes;
  for (int64_t i = 0; i < count; i += W) {
    const WordVec<W> pairs = BitsAt<W>(first + i) | (second == nullptr ? WordVec<W>{} : BitsAt<W>(second + i) << 16);
    if (cached) {
      std::memcpy(to + 2 * i, &pairs, sizeof(pairs));
    } else {
      StoreUncached(to + 2 * i, pairs);
    }
  }
}

}  // namespace

std::optional<PairFormat> PairFormat::Of(const dnnl::memory::desc& of, int64_t rows) {
  const dnnl_memory_desc_t& desc = of.data;
  const dnnl_blocking_desc_t& blocking = desc.format_desc.blocking;
  const bool blocked = desc.format_kind == dnnl_blocked && desc.extra.flags == 0 && desc.offset0 == 0;
  const bool pairs = blocked && desc.ndims == 2 && desc.data_type == dnnl_bf16 && blocking.inner_nblks == 3 &&
                     blocking.inner_blks[0] == kRows / 2 && blocking.inner_idxs[0] == 0 &&
                     blocking.inner_blks[1] % kMostLanes == 0 && blocking.inner_blks[1] <= kMostColumns &&
                     blocking.inner_idxs[1] == 1 && blocking.inner_blks[2] == 2 && blocking.inner_idxs[2] == 0;
  if (!pairs) return std::nullopt;
  PairFormat format;
  format.rows_ = rows, format.columns_ = desc.dims[1];
  format.block_ = blocking.inner_blks[1];
  format.row_blocks_ = desc.padded_dims[0] / kRows;
  format.column_blocks_ = desc.padded_dims[1] / format.block_;
  format.row_stride_ = blocking.strides[0], format.column_stride_ = blocking.strides[1];
  return format;
}

// Block by block of columns, so that what is written lies one behind the other.
template <typename T>
void PairFormat::Write(const T* from, int64_t stride, int64_t begin, int64_t end, bool cached, BFloat16* to) const {
  const int64_t zeros_end = end == rows_ ? row_blocks_ * kRows : end;
  for (int64_t block = 0; block < column_blocks_; ++block) {
    const int64_t first = block * block_, count = std::clamp(columns_ - first, int64_t{0}, block_);
    for (int64_t row = begin; row < zeros_end; row += 2) {
      BFloat16* const target = to + row / kRows * row_stride_ + block * column_stride_ + row % kRows * block_;
      const int64_t lines = std::clamp(end - row, int64_t{0}, int64_t{2});
      const T* const source = from + (row - begin) * stride + first;
      if (lines > 0 && count == block_) {
        WritePairs(source, lines > 1 ? source + stride : nullptr, count, cached, target);
        continue;
      }
      T padded[2][kMostColumns] = {};
      for (int64_t line = 0; line < lines; ++line) std::copy_n(source + line * stride, count, padded[line]);
      WritePairs(padded[0], padded[1], block_, cached, target);
    }
  }
  if (!cached) FenceUncached();
}

template void PairFormat::Write(const float*, int64_t, int64_t, int64_t, bool, BFloat16*) const;
template void PairFormat::Write(const BFloat16*, int64_t, int64_t, int64_t, bool, BFloat16*) const;

}  // namespace hp::onednn
