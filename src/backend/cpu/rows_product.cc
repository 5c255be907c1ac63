// Products of few features with many rows of weights, which come from memory once for each of them: rows are multiplied
// where they are, and while a few are multiplied the next ones are prefetched, since a processor does not foresee where
// the rows of a sample are and stops at each page.
//
// MultiplyRows has the features of a column side by side, so that one vector holds a column of kLanes features and one
// number of a row of weights multiplies it. SumRows keeps a tile of the gradient in registers while it goes over
// kBlock rows, which are in the second-level cache then; sums of blocks are added to the gradient in their order.
#include "backend/cpu/rows_product.h"

#include "backend/cpu/parallel.h"
#include "backend/cpu/row_norms.h"
#include "backend/cpu/transpose.h"
#include "backend/cpu/vec.h"
#include "base/range.h"

#include <omp.h>

#include <algorithm>
#include <type_traits>
#include <utility>

namespace hp {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16, kTileRows = 8, kTileVectors = 3, kSums = 24;
#else
constexpr int kLanes = 8, kTileRows = 4, kTileVectors = 2, kSums = 8;
#endif
constexpr int kFloatsOfLine = 16;  ///< floats of a cache line
/// Vectors of features that one pass over a row of weights multiplies.
constexpr int kMostVectors = 4;
constexpr int64_t kMostFeatures = kMostVectors * kLanes;
/// Rows of weights that one thread multiplies before their outputs are written: a multiple of the rows of any tile.
constexpr int64_t kRowsOfChunk = 48;
/// Rows of weights whose products SumRows adds up in registers.
constexpr int64_t kBlock = 64;
constexpr int64_t kColumnsOfTile = kTileVectors * kLanes;  ///< columns of a tile of the gradient

int64_t Padded(int64_t rows) { return (rows + kLanes - 1) / kLanes * kLanes; }

/// Products of rows w[0, Rows) with Vectors vectors of features, to rows of `out`.
template <int Rows, int Vectors>
inline void MultiplyTile(const float* const* w, const float* const* next, int64_t columns, const float* packed,
                         int64_t padded, float* out) {
  constexpr int kSteps = Vectors == 1 ? 4 : Vectors == 2 ? 2 : 1;
  FloatVec<kLanes> sums[Rows][Vectors] = {};
  int64_t k = 0;
  const auto multiply = [&](auto steps) {
    constexpr int kCount = decltype(steps)::value;
    FloatVec<kLanes> x[kCount][Vectors];
    for (int s = 0; s < kCount; ++s) {
      for (int v = 0; v < Vectors; ++v) x[s][v] = Load<kLanes>(packed + (k + s) * padded + v * kLanes);
    }
#pragma GCC unroll 24
    for (int c = 0; c < Rows; ++c) {
      for (int s = 0; s < kCount; ++s) {
        for (int v = 0; v < Vectors; ++v) sums[c][v] += x[s][v] * w[c][k + s];
      }
    }
  };
  for (; k + kFloatsOfLine <= columns;) {
    for (int c = 0; c < Rows; ++c) __builtin_prefetch(next[c] + k, 0, 2);
    for (const int64_t end = k + kFloatsOfLine; k < end; k += kSteps) multiply(std::integral_constant<int, kSteps>());
  }
  for (; k < columns; ++k) multiply(std::integral_constant<int, 1>());
  for (int c = 0; c < Rows; ++c) {
    for (int v = 0; v < Vectors; ++v) Store<kLanes>(out + c * kMostFeatures + v * kLanes, sums[c][v]);
  }
}

/// Rows [begin, end) of the weights with `Vectors` vectors of features.
template <int Vectors>
void MultiplyVectors(const WeightRows& w, int64_t begin, int64_t end, const float* packed, int64_t padded, float* out) {
  constexpr int kRows = Vectors == 1 ? 16 : kSums / Vectors;
  const float *rows[kRows], *next[kRows];
  int64_t i = begin;
  for (; i + kRows <= end; i += kRows) {
    for (int c = 0; c < kRows; ++c) {
      rows[c] = w.Row(i + c);
      next[c] = w.Row(std::min(i + c + kRows, w.count - 1));
    }
    MultiplyTile<kRows, Vectors>(rows, next, w.columns, packed, padded, out + (i - begin) * kMostFeatures);
  }
  for (; i < end; ++i) {
    rows[0] = next[0] = w.Row(i);
    MultiplyTile<1, Vectors>(rows, next, w.columns, packed, padded, out + (i - begin) * kMostFeatures);
  }
}

/// Rows [begin, end) of the weights with `vectors` vectors of features: out [end - begin, kMostFeatures].
void MultiplyChunk(const WeightRows& w, int64_t begin, int64_t end, int64_t vectors, const float* packed,
                   int64_t padded, float* out) {
  switch (vectors) {
    case 1:
      return MultiplyVectors<1>(w, begin, end, packed, padded, out);
    case 2:
      return MultiplyVectors<2>(w, begin, end, packed, padded, out);
    case 3:
      return MultiplyVectors<3>(w, begin, end, packed, padded, out);
    default:
      return MultiplyVectors<4>(w, begin, end, packed, padded, out);
  }
}

/// y[r][c] = factors[c] * out[c][r] for c < count, r < rows; factors may be null.
void StoreChunk(const float* out, int64_t count, int64_t rows, const float* factors, float* y, int64_t y_stride) {
  for (int64_t c = 0; c < count; c += kLanes) {
    for (int64_t r = 0; r < rows; r += kLanes) {
      FloatVec<kLanes> square[kLanes];
      for (int i = 0; i < kLanes; ++i) square[i] = Load<kLanes>(out + (c + i) * kMostFeatures + r);
      Transpose<kLanes>(square);
      const int64_t here = std::min<int64_t>(kLanes, rows - r);
      if (c + kLanes <= count) {
        const FloatVec<kLanes> factor = factors == nullptr ? FloatVec<kLanes>{} + 1 : Load<kLanes>(factors + c);
        for (int64_t i = 0; i < here; ++i) Store<kLanes>(y + (r + i) * y_stride + c, square[i] * factor);
        continue;
      }
      for (int64_t i = 0; i < here; ++i) {
        for (int64_t o = c; o < count; ++o) {
          y[(r + i) * y_stride + o] = square[i][o - c] * (factors == nullptr ? 1.0f : factors[o]);
        }
      }
    }
  }
}

/// Some rows of weights, and the numbers that up to kMostFeatures rows of the gradient take them by.
struct RowBlock {
  RowBlock(const WeightRows& w, int64_t begin) : count(std::min(kBlock, w.count - begin)) {
    for (int64_t i = 0; i < count; ++i) rows[i] = w.Row(begin + i);
  }
  /// @param factors of the rows of weights; null: 1.
  void TakeNumbers(int64_t features, const float* dy, int64_t dy_stride, const float* factors) {
    for (int64_t r = 0; r < features; ++r) {
      for (int64_t i = 0; i < count; ++i) {
        numbers[r][i] = dy[r * dy_stride + i] * (factors == nullptr ? 1.0f : factors[i]);
      }
    }
  }

  int64_t count;
  const float* rows[kBlock];
  float numbers[kMostFeatures][kBlock];
};

/// Prefetches `columns` of the block of rows that begins at row `begin`, if there is one, row by row: a little at each
/// of `calls` calls, so that no memory request waits for a place among those under way.
class Ahead {
 public:
  Ahead(const WeightRows& w, int64_t begin, const Range& columns, int64_t calls)
      : w_(w),
        columns_(columns),
        row_(begin),
        end_(std::min(begin + kBlock, w.count)),
        lines_(((columns.size() + kFloatsOfLine - 1) / kFloatsOfLine * kBlock + calls - 1) / calls),
        at_(columns.begin) {}

  void Next() {
    for (int64_t line = 0; line < lines_ && row_ < end_; ++line) {
      __builtin_prefetch(w_.Row(row_) + at_, 0, 2);
      at_ += kFloatsOfLine;
      if (at_ < columns_.end) continue;
      at_ = columns_.begin;
      ++row_;
    }
  }

 private:
  const WeightRows& w_;
  const Range columns_;
  int64_t row_;
  const int64_t end_, lines_;
  int64_t at_;
};

/// Where a tile's sums go.
struct Gradient {
  float* d_x;
  int64_t stride;
  bool add;  ///< false: overwrites it
};

template <int Rows, int Vectors, int W>
inline void SumTile(const RowBlock& block, int64_t r, int64_t k, const Gradient& gradient, Ahead* ahead) {
  FloatVec<W> sums[Rows][Vectors] = {};
  for (int64_t i = 0; i < block.count; ++i) {
    ahead->Next();
    FloatVec<W> w[Vectors];
    for (int v = 0; v < Vectors; ++v) w[v] = Load<W>(block.rows[i] + k + v * W);
    for (int o = 0; o < Rows; ++o) {
      for (int v = 0; v < Vectors; ++v) sums[o][v] += w[v] * block.numbers[r + o][i];
    }
  }
  for (int o = 0; o < Rows; ++o) {
    for (int v = 0; v < Vectors; ++v) {
      float* const to = gradient.d_x + (r + o) * gradient.stride + k + v * W;
      Store<W>(to, gradient.add ? Load<W>(to) + sums[o][v] : sums[o][v]);
    }
  }
}

/// Columns [k, end), at most kColumnsOfTile, of `Rows` rows of the gradient.
template <int Rows>
void SumColumns(const RowBlock& block, int64_t r, int64_t k, int64_t end, const Gradient& gradient, Ahead* ahead) {
  if (k + kColumnsOfTile <= end) return SumTile<Rows, kTileVectors, kLanes>(block, r, k, gradient, ahead);
  for (; k + kLanes <= end; k += kLanes) SumTile<Rows, 1, kLanes>(block, r, k, gradient, ahead);
  for (; k < end; ++k) SumTile<Rows, 1, 1>(block, r, k, gradient, ahead);
}

/// The same of `rows` rows, Less + 1 for one of the numbers Less.
template <size_t... Less>
void SumRowsOfTile(std::index_sequence<Less...>, int64_t rows, const RowBlock& block, int64_t r, int64_t k, int64_t end,
                   const Gradient& gradient, Ahead* ahead) {
  ((rows == Less + 1 ? SumColumns<Less + 1>(block, r, k, end, gradient, ahead) : void()), ...);
}

/// All tiles of `columns` of `rows` rows of the gradient, whose sizes differ by one row at most.
void SumBlock(const RowBlock& block, int64_t rows, const Range& columns, const Gradient& gradient, Ahead* ahead) {
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  for (int64_t k = columns.begin; k < columns.end; k += kColumnsOfTile) {
    for (int64_t t = 0; t < tiles; ++t) {
      const Range of_tile = PartOf(rows, t, tiles);
      SumRowsOfTile(std::make_index_sequence<kTileRows>(), of_tile.size(), block, of_tile.begin, k,
                    std::min(columns.end, k + kColumnsOfTile), gradient, ahead);
    }
  }
}

}  // namespace

int64_t PackedFeatures(int64_t rows, int64_t columns) { return Padded(rows) * columns; }

void PackFeatures(int64_t rows, int64_t columns, const float* x, int64_t first, float* packed) {
  const int64_t padded = Padded(rows);
  ForItems((columns + kFloatsOfLine - 1) / kFloatsOfLine, rows * columns, [&](int64_t piece) {
    const int64_t begin = piece * kFloatsOfLine, end = std::min(columns, begin + kFloatsOfLine);
    for (int64_t r = 0; r < padded; ++r) {
      for (int64_t k = begin; k < end; ++k) packed[(first + k) * padded + r] = r < rows ? x[r * columns + k] : 0.0f;
    }
  });
}

void MultiplyRows(int64_t rows, const float* packed, const WeightRows& w, float* inverse_norms, float* y,
                  int64_t y_stride) {
  const int64_t padded = Padded(rows), chunks = (w.count + kRowsOfChunk - 1) / kRowsOfChunk;
#pragma omp parallel for schedule(static) if (rows * w.count * w.columns > kChunkElements)
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t begin = chunk * kRowsOfChunk, count = std::min(kRowsOfChunk, w.count - begin);
    float* const norms = inverse_norms == nullptr ? nullptr : inverse_norms + begin;
    for (int64_t r = 0; r < rows; r += kMostFeatures) {
      float out[kRowsOfChunk * kMostFeatures];
      const int64_t here = std::min(kMostFeatures, rows - r);
      MultiplyChunk(w, begin, begin + count, Padded(here) / kLanes, packed + r, padded, out);
      // Once the product has brought the rows into the cache.
      for (int64_t i = 0; r == 0 && norms != nullptr && i < count; ++i) {
        norms[i] = InverseNorm(w.Row(begin + i), w.columns);
      }
      StoreChunk(out, count, here, norms, y + r * y_stride + begin, y_stride);
    }
  }
}

// A thread takes columns for all of the rows of weights; where there are more threads than tiles of columns, some of
// the rows of the gradient as well.
void SumRows(int64_t rows, const float* dy, int64_t dy_stride, const WeightRows& w, const float* inverse_norms,
             float* d_x, int64_t d_x_stride) {
  const int64_t steps = (w.columns + kColumnsOfTile - 1) / kColumnsOfTile;
  if (w.count == 0) {
    for (int64_t r = 0; r < rows; ++r) std::fill_n(d_x + r * d_x_stride, w.columns, 0.0f);
  }
#pragma omp parallel if (rows * w.count * w.columns > kChunkElements)
  {
    const int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
    const int64_t across = std::min(threads, steps), down = threads / across;
    const Range of_steps = PartOf(steps, thread % across, across);
    const Range columns = {of_steps.begin * kColumnsOfTile, std::min(w.columns, of_steps.end * kColumnsOfTile)};
    const Range here = thread / across < down ? PartOf(rows, thread / across, down) : Range{};
    const int64_t tiles = of_steps.size() * ((here.size() + kTileRows - 1) / kTileRows);
    for (int64_t i = 0; i < w.count && !here.empty(); i += kBlock) {
      RowBlock block(w, i);
      Ahead ahead(w, i + kBlock, columns, tiles * block.count);
      for (int64_t r = here.begin; r < here.end; r += kMostFeatures) {
        const int64_t count = std::min(kMostFeatures, here.end - r);
        block.TakeNumbers(count, dy + r * dy_stride + i, dy_stride,
                          inverse_norms == nullptr ? nullptr : inverse_norms + i);
        SumBlock(block, count, columns, {d_x + r * d_x_stride, d_x_stride, i > 0}, &ahead);
      }
    }
  }
}

}  // namespace hp
