#pragma once

#include "backend/cpu/vec.h"

#include <cstdint>

namespace hp {

/// to[c] = (to[c] +) the sum of column c of `from`, rows ascending, for c in [0, columns): a bias gradient. By the
/// calling thread. @tparam T float or BFloat16. @param stride elements from one row of `from` to the next.
template <typename T>
void ColumnSums(const T* from, int64_t rows, int64_t columns, int64_t stride, bool add, float* to) {
  ForEachChunk(columns, [&](auto width, int64_t first) {
    constexpr int W = decltype(width)::value;
    FloatVec<W> sum = add ? Load<W>(to + first) : FloatVec<W>{};
    for (int64_t r = 0; r < rows; ++r) sum += Load<W>(from + r * stride + first);
    Store<W>(to + first, sum);
  });
}

}  // namespace hp
