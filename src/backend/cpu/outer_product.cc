// Register blocking: a tile of d_w (kRows outputs by a panel's columns) stays in registers while r runs over all rows
// of dy and x. Panels are walked in ranges that fit into half of the second-level cache and are read again by every
// tile of outputs.
#include "backend/cpu/outer_product.h"

#include "backend/cpu/vec.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace hp {
namespace {

// A tile of d_w in registers: with AVX-512 6 rows of 4 vectors of 32 registers, else 4 rows of 2 vectors of 16.
#if defined(__AVX512F__)
constexpr int kWidth = 16, kRows = 6, kVectors = 4;
#else
constexpr int kWidth = 8, kRows = 4, kVectors = 2;
#endif
constexpr int64_t kPanel = kVectors * kWidth;  // columns
/// The part of x that all tiles of one column range read again: half of a second-level cache.
constexpr int64_t kCachedFloats = 96 * 1024;

struct Operands {
  int64_t rows;
  const float* dy;  // [rows, outputs]
  int64_t outputs;
  float* d_w;
  int64_t d_w_stride;
  bool accumulate;
};

/// A tile at d_w of which I counts the vectors, row by row. With indices that are constants from the start GCC 12 keeps
/// the sums in registers; an array that loops index goes through the stack, which costs half of the speed at few rows.
template <int Rows, size_t... I>
inline void MultiplyTile(const Operands& p, int64_t o, const float* x, float* d_w, int64_t stride,
                         std::index_sequence<I...>) {
  constexpr auto column = [](size_t i) { return static_cast<int64_t>(i % kVectors * kWidth); };
  constexpr auto row = [](size_t i) { return static_cast<int64_t>(i / kVectors); };
  FloatVec<kWidth> sums[Rows * kVectors];
  if (p.accumulate) {
    ((sums[I] = Load<kWidth>(d_w + row(I) * stride + column(I))), ...);
  } else {
    ((sums[I] = FloatVec<kWidth>{}), ...);
  }
  const float* dy = p.dy + o;
  for (int64_t r = 0; r < p.rows; ++r, dy += p.outputs, x += kPanel) {
    ((sums[I] += Load<kWidth>(x + column(I)) * dy[row(I)]), ...);
  }
  (Store<kWidth>(d_w + row(I) * stride + column(I), sums[I]), ...);
}

/// Outputs [o, o + Rows) of one panel, which begins at column `k`. @param columns of it; the others are zeros.
template <int Rows>
inline void MultiplyPanel(const Operands& p, int64_t o, const float* x, int64_t k, int64_t columns) {
  constexpr auto vectors = std::make_index_sequence<Rows * kVectors>();
  float* const d_w = p.d_w + o * p.d_w_stride + k;
  if (columns == kPanel) return MultiplyTile<Rows>(p, o, x, d_w, p.d_w_stride, vectors);
  float tile[Rows * kPanel] = {};
  for (int i = 0; p.accumulate && i < Rows; ++i) std::copy_n(d_w + i * p.d_w_stride, columns, tile + i * kPanel);
  MultiplyTile<Rows>(p, o, x, tile, kPanel, vectors);
  for (int i = 0; i < Rows; ++i) std::copy_n(tile + i * kPanel, columns, d_w + i * p.d_w_stride);
}

/// dy of a few outputs without what lies between its rows: powers of two there would make them evict each other.
const float* Dense(int64_t rows, int64_t outputs, const float* dy, int64_t dy_stride) {
  static thread_local std::vector<float> dense;
  dense.resize(std::max(std::ssize(dense), rows * outputs));
  float* to = dense.data();
  for (int64_t r = 0; r < rows; ++r, dy += dy_stride, to += outputs) {
#pragma omp simd
    for (int64_t o = 0; o < outputs; ++o) to[o] = dy[o];
  }
  return dense.data();
}

}  // namespace

int64_t PackedColumns(int64_t rows, int64_t columns) { return rows * ((columns + kPanel - 1) / kPanel * kPanel); }

void PackColumns(int64_t rows, int64_t columns, const float* x, float* packed) {
#pragma omp parallel for schedule(static) if (rows * columns > kSerialElements)
  for (int64_t k = 0; k < columns; k += kPanel) {
    const int64_t count = std::min(kPanel, columns - k);
    for (int64_t r = 0; r < rows; ++r) {
      float* const to = packed + k * rows + r * kPanel;
      std::copy_n(x + r * columns + k, count, to);
      std::fill(to + count, to + kPanel, 0.0f);
    }
  }
}

void OuterProductSum(const ColumnPanels& x, const Range& rows, int64_t outputs, const float* dy, int64_t dy_stride,
                     float* d_w, int64_t d_w_stride, bool accumulate) {
  const Operands p = {rows.size(), Dense(rows.size(), outputs, dy, dy_stride), outputs, d_w, d_w_stride, accumulate};
  const int64_t cached = std::max(kCachedFloats / rows.size() / kPanel, int64_t{1}) * kPanel;
  for (int64_t begin = 0; begin < x.columns; begin += cached) {
    const int64_t end = std::min(x.columns, begin + cached);
    const auto for_panels = [&](const auto& multiply) {
      for (int64_t k = begin; k < end; k += kPanel) {
        multiply(x.data + k * x.rows + rows.begin * kPanel, k, std::min(kPanel, x.columns - k));
      }
    };
    int64_t o = 0;
    for (; o + kRows <= outputs; o += kRows) {
      for_panels([&](const float* panel, int64_t k, int64_t n) { MultiplyPanel<kRows>(p, o, panel, k, n); });
    }
    for (; o < outputs; ++o) {
      for_panels([&](const float* panel, int64_t k, int64_t n) { MultiplyPanel<1>(p, o, panel, k, n); });
    }
  }
}

}  // namespace hp
