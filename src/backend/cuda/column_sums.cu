#include "backend/cuda/column_sums.h"
#include "backend/cuda/element.h"

#include <algorithm>

namespace hp::cuda {
namespace {

/// Rows are cut into pieces, so that there are about this many sums to begin with: enough threads to keep a large GPU's
/// memory busy.
constexpr int64_t kSums = 128 * 1024;
constexpr int64_t kLeastRows = 8;  // in a piece

int64_t Pieces(int64_t rows, int64_t columns) {
  return std::clamp<int64_t>(std::min(kSums / columns, rows / kLeastRows), 1, rows);
}

/// Element i = (piece, column): the sum of the piece's rows. Neighbouring threads read neighbouring columns; `from` is
/// read once.
template <typename T>
struct SumPiece {
  const T* from;
  int64_t rows, columns, rows_in_piece;
  float* sums;
  HP_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t piece = i / columns, column = i - piece * columns;
    const int64_t begin = piece * rows_in_piece, end = begin + rows_in_piece < rows ? begin + rows_in_piece : rows;
    float sum = 0;
    for (int64_t row = begin; row < end; ++row) sum += ToFloat(from[row * columns + column]);
    sums[i] = sum;
  }
};

/// The pieces' sums of each column, which are few and still in the cache.
struct SumOfPieces {
  using Value = float;
  const float* sums;
  int64_t columns;
  bool add;
  float* to;
  HP_HOST_DEVICE Value Identity() const { return 0; }
  HP_HOST_DEVICE Value Map(int64_t column, int64_t piece) const { return sums[piece * columns + column]; }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return a + b; }
  HP_HOST_DEVICE void Finish(int64_t column, const Value& sum) const { to[column] = add ? to[column] + sum : sum; }
};

}  // namespace

int64_t ColumnSumsScratch(int64_t rows, int64_t columns) { return Pieces(rows, columns) * columns; }

void ColumnSums(const GpuStream& stream, int64_t rows, int64_t columns, ElementType element, const void* from, bool add,
                float* to, float* scratch) {
  const int64_t pieces = Pieces(rows, columns), rows_in_piece = (rows + pieces - 1) / pieces;
  WithElementType(element, [&](auto type) {
    using T = typename decltype(type)::Type;
    ForEach(stream, pieces * columns, SumPiece<T>{static_cast<const T*>(from), rows, columns, rows_in_piece, scratch});
  });
  const SumOfPieces rest = {scratch, columns, add, to};
  constexpr int64_t kFew = 32;
  if (pieces <= kFew) return ReduceShortRows(stream, columns, pieces, rest);
  ReduceRows(stream, columns, pieces, rest);
}

}  // namespace hp::cuda
