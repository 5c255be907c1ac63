#include "backend/activation_rules.h"
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

/// Element i = (piece, W columns): the same of a ReLU's gradient, which is made on the way. y is read, and dy read and
/// written, once.
template <typename T, int W>
struct ReluOfPiece {
  activation::Relu<activation::From::kOutput> relu;
  const T* y;
  T* dy;
  int64_t rows, columns, rows_in_piece;
  float* sums;
  HP_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t packs = columns / W, piece = i / packs, column = (i - piece * packs) * W;
    const int64_t begin = piece * rows_in_piece, end = begin + rows_in_piece < rows ? begin + rows_in_piece : rows;
    Pack<float, W> sum = {};
    for (int64_t row = begin; row < end; ++row) {
      T* const at = dy + row * columns + column;
      const Pack<float, W> seen = ReadPack<W>(y + row * columns + column);
      Pack<float, W> gradient = ReadPack<W>(at);
      for (int w = 0; w < W; ++w) gradient.of[w] *= relu.Derivative(seen.of[w]);
      WritePack(at, gradient);
      for (int w = 0; w < W; ++w) sum.of[w] += gradient.of[w];
    }
    if (sums == nullptr) return;
    for (int w = 0; w < W; ++w) sums[piece * columns + column + w] = sum.of[w];
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
  AddColumnSums(stream, rows, columns, scratch, add, to);
}

void ReluColumnSums(const GpuStream& stream, int64_t rows, int64_t columns, ElementType element, const void* y,
                    void* dy, float* sums) {
  const int64_t pieces = Pieces(rows, columns), rows_in_piece = (rows + pieces - 1) / pieces;
  WithElementType(element, [&](auto type) {
    using T = typename decltype(type)::Type;
    const auto* const seen = static_cast<const T*>(y);
    auto* const gradient = static_cast<T*>(dy);
    constexpr int kWidth = kPackWidth<T>;
    if (columns % kWidth == 0 && Packable({y, dy})) {
      ForEach(stream, pieces * columns / kWidth,
              ReluOfPiece<T, kWidth>{{}, seen, gradient, rows, columns, rows_in_piece, sums});
    } else {
      ForEach(stream, pieces * columns, ReluOfPiece<T, 1>{{}, seen, gradient, rows, columns, rows_in_piece, sums});
    }
  });
}

void AddColumnSums(const GpuStream& stream, int64_t rows, int64_t columns, const float* sums, bool add, float* to) {
  const int64_t pieces = Pieces(rows, columns);
  const SumOfPieces rest = {sums, columns, add, to};
  constexpr int64_t kFew = 32;
  if (pieces <= kFew) return ReduceShortRows(stream, columns, pieces, rest);
  ReduceRows(stream, columns, pieces, rest);
}

}  // namespace hp::cuda
