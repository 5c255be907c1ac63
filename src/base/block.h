#pragma once

#include "base/shape.h"

#include <cstdint>
#include <ostream>
#include <span>

namespace hp {

/// A rectangle of a blob that is seen as a matrix: its rows are axis 0, its columns all other axes together (a bias has
/// one column). It says what one node holds of a parameter: of an InnerProduct [num_output, inputs] split by outputs a
/// range of rows, split by inputs a range of columns. Whoever holds a block keeps its elements dense, row by row.
struct Block {
  int64_t begin_row = 0, end_row = 0, begin_col = 0, end_col = 0;

  /// All of a blob of shape `whole`.
  static Block Whole(const Shape& whole);
  /// Whole rows of it.
  static Block Rows(const Shape& whole, int64_t begin, int64_t end);

  int64_t rows() const { return end_row - begin_row; }
  int64_t cols() const { return end_col - begin_col; }
  int64_t count() const { return rows() * cols(); }
  bool empty() const { return count() == 0; }
  bool LiesIn(const Shape& whole) const;
  /// The shape of its dense elements: that of the blob where rows are whole, else [rows, cols].
  Shape ShapeIn(const Shape& whole) const;

  bool operator==(const Block&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Block& block);  ///< "rows 4 to 7, columns 0 to 33"

/// Columns of a blob that is seen as a matrix.
int64_t ColumnsOf(const Shape& whole);

// Copies between a blob and a block of it. Any memory of the host's; `block` must lie in `shape`, and the spans must
// have its size and the blob's (CHECK).

/// Cuts `block` out of a blob: dense [block.count()] of whole [shape.count()].
void CutBlock(std::span<const float> whole, const Shape& shape, const Block& block, std::span<float> dense);
/// Puts a block into its place in the blob, and nothing else.
void PlaceBlock(std::span<const float> dense, const Block& block, const Shape& shape, std::span<float> whole);
/// The same for a part of the blob: elements [begin, begin + part.size()) of it. What the block has not of them stays.
void PlaceBlockInPart(std::span<const float> dense, const Block& block, const Shape& shape, int64_t begin,
                      std::span<float> part);

}  // namespace hp
