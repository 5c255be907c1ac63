// Register blocking: a tile of d_w (kRows outputs by kVectors vectors of columns) stays in registers while r runs over
// all rows of dy and x. Columns are walked in ranges whose part of x fits into half of the second-level cache and is
// read again by every tile of outputs.
#include "backend/cpu/outer_product.h"

#include "backend/cpu/vec.h"

#include <algorithm>

namespace hp {
namespace {

// A tile of d_w in registers: with AVX-512 6 rows of 4 vectors of 32 registers, else 4 rows of 2 vectors of 16.
#if defined(__AVX512F__)
constexpr int kWidth = 16, kRows = 6, kVectors = 4;
#else
constexpr int kWidth = 8, kRows = 4, kVectors = 2;
#endif
/// The part of x that all tiles of one column range read again: half of a second-level cache.
constexpr int64_t kCachedFloats = 96 * 1024;

struct Operands {
  int64_t rows;
  const float* dy;
  int64_t dy_stride;
  const float* x;
  int64_t x_stride;
  float* d_w;
  int64_t d_w_stride;
  bool accumulate;
};

/// The tile of Rows x (Vectors * W) elements at (o, k).
template <int Rows, int Vectors, int W>
inline void MultiplyTile(const Operands& p, int64_t o, int64_t k) {
  FloatVec<W> sums[Rows][Vectors];
  float* d_w = p.d_w + o * p.d_w_stride + k;
  for (int i = 0; i < Rows; ++i) {
    for (int j = 0; j < Vectors; ++j) {
      sums[i][j] = p.accumulate ? Load<W>(d_w + i * p.d_w_stride + j * W) : FloatVec<W>{};
    }
  }
  const float *dy = p.dy + o, *x = p.x + k;
  for (int64_t r = 0; r < p.rows; ++r, dy += p.dy_stride, x += p.x_stride) {
    FloatVec<W> values[Vectors];
    for (int j = 0; j < Vectors; ++j) values[j] = Load<W>(x + j * W);
    for (int i = 0; i < Rows; ++i) {
      for (int j = 0; j < Vectors; ++j) sums[i][j] += values[j] * dy[i];
    }
  }
  for (int i = 0; i < Rows; ++i) {
    for (int j = 0; j < Vectors; ++j) Store<W>(d_w + i * p.d_w_stride + j * W, sums[i][j]);
  }
}

template <int Rows>
inline void RowsOfTiles(const Operands& p, int64_t o, int64_t begin, int64_t end) {
  int64_t k = begin;
  for (; k + kVectors * kWidth <= end; k += kVectors * kWidth) MultiplyTile<Rows, kVectors, kWidth>(p, o, k);
  for (; k + kWidth <= end; k += kWidth) MultiplyTile<Rows, 1, kWidth>(p, o, k);
  for (; k < end; ++k) MultiplyTile<Rows, 1, 1>(p, o, k);
}

}  // namespace

void OuterProductSum(int64_t rows, int64_t outputs, int64_t columns, const float* dy, int64_t dy_stride, const float* x,
                     int64_t x_stride, float* d_w, int64_t d_w_stride, bool accumulate) {
  const Operands p = {rows, dy, dy_stride, x, x_stride, d_w, d_w_stride, accumulate};
  constexpr int64_t kStep = kVectors * kWidth;
  const int64_t cached = std::max(kCachedFloats / rows / kStep, int64_t{1}) * kStep;
  for (int64_t begin = 0; begin < columns; begin += cached) {
    const int64_t end = std::min(columns, begin + cached);
    int64_t o = 0;
    for (; o + kRows <= outputs; o += kRows) RowsOfTiles<kRows>(p, o, begin, end);
    for (; o < outputs; ++o) RowsOfTiles<1>(p, o, begin, end);
  }
}

}  // namespace hp
