#pragma once

#include "base/shape.h"

#include <cstdint>
#include <ostream>
#include <span>

namespace hp {

/// A rectangle of a blob that is read as a matrix: its rows are axis 0, its columns all other axes flattened (a bias
/// has one column). It says which part of a parameter one node holds: of an InnerProduct [num_output, inputs] split by
/// outputs a range of rows, split by inputs a range of columns. The elements of a block are stored densely, row by row.
struct Block {
  int64_t begin_row = 0, end_row = 0, begin_col = 0, end_col = 0;  ///< half-open ranges

  /// All of a blob of shape `whole`.
  static Block Whole(const Shape& whole);
  /// Rows [begin, end) of it, with all their columns.
  static Block Rows(const Shape& whole, int64_t begin, int64_t end);

  int64_t rows() const { return end_row - begin_row; }
  int64_t cols() const { return end_col - begin_col; }
  int64_t count() const { return rows() * cols(); }
  bool empty() const { return count() == 0; }
  bool LiesIn(const Shape& whole) const;  ///< ranges in order and within the blob
  /// The shape of its dense elements: `whole` with axis 0 = rows() where rows are complete, else [rows, cols].
  Shape ShapeIn(const Shape& whole) const;

  bool operator==(const Block&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Block& block);  ///< "rows 4 to 7, columns 0 to 33"

/// Columns of a blob that is read as a matrix: the product of all axes but the first; 1 for ranks 0 and 1.
int64_t ColumnsOf(const Shape& whole);

// Copies between a blob of shape `shape` and a block of it, both in host memory. CHECK-fails unless `block` lies in
// `shape`, `dense` has block.count() elements and `whole` shape.count().

/// Copies `block` of the blob `whole` to `dense`.
void CutBlock(std::span<const float> whole, const Shape& shape, const Block& block, std::span<float> dense);
/// Copies `dense` to its place in the blob; the blob's other elements stay as they are.
void PlaceBlock(std::span<const float> dense, const Block& block, const Shape& shape, std::span<float> whole);
/// The same where only elements [begin, begin + part.size()) of the blob are in memory, in `part`: copies the elements
/// that the block and the part have in common, so that a blob can be assembled piece by piece.
void PlaceBlockInPart(std::span<const float> dense, const Block& block, const Shape& shape, int64_t begin,
                      std::span<float> part);

}  // namespace hp
