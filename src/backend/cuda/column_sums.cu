#include "backend/activation_rules.h"
#include "backend/cuda/column_sums.h"
#include "backend/cuda/element.h"

#include <algorithm>

namespace hp::cuda {
namespace {

/// Rows are cut into pieces, with a sum for each column of each. Packs of 8 columns make of so many sums 65,536
/// threads, 256 blocks; they take up to 2 MiB.
constexpr int64_t kSums = 512 * 1024;
/// The last kernel has a block of threads for each column, in which a thread adds up to 64 of them.
constexpr int64_t kMostPieces = 16 * 1024;
constexpr int64_t kLeastRows = 8;  // in a piece
/// A thread reads so many rows before it uses the first: 64 bytes are on their way to it of each tensor, in packs.
constexpr int kRowsAhead = 4;

/// All pieces have `rows` rows but the last, which may have fewer.
struct Pieces {
  int64_t count, rows;
};

Pieces PiecesOf(int64_t rows, int64_t columns) {
  const int64_t most = std::min({kSums / columns, kMostPieces, rows / kLeastRows}), least = 1;
  const int64_t pieces = std::max(most, least), rows_in_piece = std::max((rows + pieces - 1) / pieces, least);
  const int64_t whole = (rows_in_piece + kRowsAhead - 1) / kRowsAhead * kRowsAhead;
  return {std::max((rows + whole - 1) / whole, least), whole};
}

/// Element i = (piece, W columns). Neighbouring threads read neighbouring columns.
template <int W>
struct PlaceInPiece {
  int64_t piece, column, begin, end;
  HP_HOST_DEVICE PlaceInPiece(int64_t i, int64_t rows, int64_t columns, int64_t rows_in_piece) {
    const int64_t packs = columns / W;
    piece = i / packs, column = (i - piece * packs) * W;
    begin = piece * rows_in_piece, end = begin + rows_in_piece < rows ? begin + rows_in_piece : rows;
  }
  HP_HOST_DEVICE void Put(const Pack<float, W>& sum, int64_t columns, float* sums) const {
    for (int w = 0; w < W; ++w) sums[piece * columns + column + w] = sum.of[w];
  }
};

/// The sum of a piece's rows, in their order. `from` is read once.
template <typename T, int W>
struct SumPiece {
  const T* from;
  int64_t rows, columns, rows_in_piece;
  float* sums;
  HP_HOST_DEVICE void operator()(int64_t i) const {
    const PlaceInPiece<W> place(i, rows, columns, rows_in_piece);
    Pack<float, W> sum = {};
    int64_t row = place.begin;
    for (; row + kRowsAhead <= place.end; row += kRowsAhead) Add<kRowsAhead>(row * columns + place.column, &sum);
    for (; row < place.end; ++row) Add<1>(row * columns + place.column, &sum);
    place.Put(sum, columns, sums);
  }

 private:
  template <int R>
  HP_HOST_DEVICE void Add(int64_t at, Pack<float, W>* sum) const {
    Pack<T, W> read[R];
    for (int r = 0; r < R; ++r) read[r] = LoadPack<W>(from + at + r * columns);
    for (int r = 0; r < R; ++r) {
      for (int w = 0; w < W; ++w) sum->of[w] += ToFloat(read[r].of[w]);
    }
  }
};

/// The same of a ReLU's gradient, which is made on the way. y is read, and dy read and written, once.
template <typename T, int W>
struct ReluOfPiece {
  activation::Relu<activation::From::kOutput> relu;
  const T* y;
  T* dy;
  int64_t rows, columns, rows_in_piece;
  float* sums;
  HP_HOST_DEVICE void operator()(int64_t i) const {
    const PlaceInPiece<W> place(i, rows, columns, rows_in_piece);
    Pack<float, W> sum = {};
    int64_t row = place.begin;
    for (; row + kRowsAhead <= place.end; row += kRowsAhead) Add<kRowsAhead>(row * columns + place.column, &sum);
    for (; row < place.end; ++row) Add<1>(row * columns + place.column, &sum);
    if (sums != nullptr) place.Put(sum, columns, sums);
  }

 private:
  /// All loads come first: for all that the compiler knows a store to dy changes y, so it moves no load across one.
  template <int R>
  HP_HOST_DEVICE void Add(int64_t at, Pack<float, W>* sum) const {
    Pack<T, W> seen[R], gradient[R];
    for (int r = 0; r < R; ++r) {
      seen[r] = LoadPack<W>(y + at + r * columns), gradient[r] = LoadPack<W>(dy + at + r * columns);
    }
    for (int r = 0; r < R; ++r) {
      Pack<float, W> masked;
      for (int w = 0; w < W; ++w) {
        masked.of[w] = ToFloat(gradient[r].of[w]) * relu.Derivative(ToFloat(seen[r].of[w]));
        sum->of[w] += masked.of[w];
      }
      WritePack(dy + at + r * columns, masked);
    }
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

int64_t ColumnSumsScratch(int64_t rows, int64_t columns) { return PiecesOf(rows, columns).count * columns; }

void ColumnSums(const GpuStream& stream, int64_t rows, int64_t columns, ElementType element, const void* from, bool add,
                float* to, float* scratch) {
  const Pieces pieces = PiecesOf(rows, columns);
  WithElementType(element, [&](auto type) {
    using T = typename decltype(type)::Type;
    const auto* const read = static_cast<const T*>(from);
    constexpr int kWidth = kPackWidth<T>;
    if (columns % kWidth == 0 && Packable({from})) {
      ForEach(stream, pieces.count * columns / kWidth, SumPiece<T, kWidth>{read, rows, columns, pieces.rows, scratch});
    } else {
      ForEach(stream, pieces.count * columns, SumPiece<T, 1>{read, rows, columns, pieces.rows, scratch});
    }
  });
  AddColumnSums(stream, rows, columns, scratch, add, to);
}

void ReluColumnSums(const GpuStream& stream, int64_t rows, int64_t columns, ElementType element, const void* y,
                    void* dy, float* sums) {
  const Pieces pieces = PiecesOf(rows, columns);
  WithElementType(element, [&](auto type) {
    using T = typename decltype(type)::Type;
    const auto* const seen = static_cast<const T*>(y);
    auto* const gradient = static_cast<T*>(dy);
    constexpr int kWidth = kPackWidth<T>;
    if (columns % kWidth == 0 && Packable({y, dy})) {
      ForEach(stream, pieces.count * columns / kWidth,
              ReluOfPiece<T, kWidth>{{}, seen, gradient, rows, columns, pieces.rows, sums});
    } else {
      ForEach(stream, pieces.count * columns, ReluOfPiece<T, 1>{{}, seen, gradient, rows, columns, pieces.rows, sums});
    }
  });
}

void AddColumnSums(const GpuStream& stream, int64_t rows, int64_t columns, const float* sums, bool add, float* to) {
  AddPieces(stream, PiecesOf(rows, columns).count, columns, sums, add, to);
}

void AddPieces(const GpuStream& stream, int64_t pieces, int64_t columns, const float* sums, bool add, float* to) {
  const SumOfPieces rest = {sums, columns, add, to};
  constexpr int64_t kFew = 32;
  if (pieces <= kFew) return ReduceShortRows(stream, columns, pieces, rest);
  ReduceRows(stream, columns, pieces, rest);
}

}  // namespace hp::cuda
