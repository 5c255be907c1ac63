#include "base/block.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {
namespace {

// Rows that follow each other in the blob are copied as one.
bool IsOneRun(const Block& block, int64_t columns) { return block.cols() == columns; }

void CheckSizes(const Block& block, const Shape& shape, size_t dense) {
  CHECK(block.LiesIn(shape)) << "[" << shape << "]: " << block;
  CHECK_EQ(static_cast<int64_t>(dense), block.count());
}

}  // namespace

int64_t ColumnsOf(const Shape& whole) { return whole.rank() < 2 ? 1 : whole.count(1); }

Block Block::Whole(const Shape& whole) { return {0, whole.dim(0), 0, ColumnsOf(whole)}; }

Block Block::Rows(const Shape& whole, int64_t begin, int64_t end) { return {begin, end, 0, ColumnsOf(whole)}; }

bool Block::LiesIn(const Shape& whole) const {
  return 0 <= begin_row && begin_row <= end_row && end_row <= whole.dim(0) && 0 <= begin_col && begin_col <= end_col &&
         end_col <= ColumnsOf(whole);
}

Shape Block::ShapeIn(const Shape& whole) const {
  if (cols() != ColumnsOf(whole)) return {rows(), cols()};
  return whole.rank() == 0 ? whole : whole.With(0, rows());
}

std::ostream& operator<<(std::ostream& out, const Block& block) {
  return out << "rows " << block.begin_row << " to " << block.end_row << ", columns " << block.begin_col << " to "
             << block.end_col;
}

void CutBlock(std::span<const float> whole, const Shape& shape, const Block& block, std::span<float> dense) {
  CheckSizes(block, shape, dense.size());
  CHECK_EQ(static_cast<int64_t>(whole.size()), shape.count());
  const int64_t columns = ColumnsOf(shape);
  if (IsOneRun(block, columns)) {
    std::copy_n(whole.begin() + block.begin_row * columns, block.count(), dense.begin());
    return;
  }
  for (int64_t row = 0; row < block.rows(); ++row) {
    const int64_t from = (block.begin_row + row) * columns + block.begin_col;
    std::copy_n(whole.begin() + from, block.cols(), dense.begin() + row * block.cols());
  }
}

void PlaceBlock(std::span<const float> dense, const Block& block, const Shape& shape, std::span<float> whole) {
  CHECK_EQ(static_cast<int64_t>(whole.size()), shape.count());
  PlaceBlockInPart(dense, block, shape, 0, whole);
}

void PlaceBlockInPart(std::span<const float> dense, const Block& block, const Shape& shape, int64_t begin,
                      std::span<float> part) {
  CheckSizes(block, shape, dense.size());
  const int64_t end = begin + static_cast<int64_t>(part.size());
  CHECK(0 <= begin && end <= shape.count()) << "[" << shape << "]: elements " << begin << " to " << end;
  if (block.empty() || part.empty()) return;
  const int64_t columns = ColumnsOf(shape);
  // Runs of the block that lie one behind the other in the blob: its rows, or all of it.
  const bool one = IsOneRun(block, columns);
  const int64_t length = one ? block.count() : block.cols(), step = one ? shape.count() : columns;
  const int64_t first = block.begin_row * columns + block.begin_col, runs = one ? 1 : block.rows();
  const int64_t skipped = std::max<int64_t>(0, (begin - first) / step);
  for (int64_t run = skipped; run < runs && first + run * step < end; ++run) {
    const int64_t at = first + run * step;
    const int64_t from = std::max(at, begin), to = std::min(at + length, end);
    if (from < to) std::copy_n(dense.begin() + run * length + (from - at), to - from, part.begin() + (from - begin));
  }
}

}  // namespace hp
