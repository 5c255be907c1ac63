#pragma once

#include "base/range.h"

#include <cstdint>

namespace hp {

/// A copy of x [rows, columns] in panels of a few neighbouring columns, each with all rows one behind the other. A
/// product of outer products reads a panel from its beginning to its end, where rows of x may lie as far apart as makes
/// them evict each other from the cache.
struct ColumnPanels {
  const float* data = nullptr;  ///< PackColumns' copy
  int64_t rows = 0, columns = 0;
};

/// Floats of PackColumns' copy.
int64_t PackedColumns(int64_t rows, int64_t columns);

/// Writes that copy of x [rows, columns], whose rows are neighbours. By all threads of the team.
void PackColumns(int64_t rows, int64_t columns, const float* x, float* packed);

/// d_w[o][k] = (d_w[o][k] +) the sum over r of dy[r][o] x[r][k], for o < outputs, all columns k and r in `rows`: an
/// inner product's weight gradient for a few of its outputs. dy [rows.size(), outputs] begins with the first of `rows`,
/// d_w is [outputs, columns]; strides are floats from one row to the next. On the calling thread alone; several may
/// call it at once for different outputs. Every element is summed over ascending r, so its bits do not depend on the
/// piece that it is computed in. Each thread keeps a buffer of rows.size() x outputs floats.
/// @param rows at least one. @param accumulate adds to d_w instead of overwriting it.
void OuterProductSum(const ColumnPanels& x, const Range& rows, int64_t outputs, const float* dy, int64_t dy_stride,
                     float* d_w, int64_t d_w_stride, bool accumulate);

}  // namespace hp
