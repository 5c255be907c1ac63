// Three passes over the classes: the largest value, exponentials and their sum (in double), division. Where columns are
// strided (inner > 1) up to 64 neighbouring ones are taken together, so that memory is read in order.
#include "backend/cpu/softmax_math.h"

#include "backend/cpu/parallel.h"
#include "backend/cpu/row_math.h"

#include <algorithm>
#include <cmath>

namespace hp {
namespace {

constexpr int64_t kPixels = 64;  // columns taken at once where inner > 1

/// Where the classes of a row are neighbours.
void SoftmaxRow(const float* x, int64_t classes, float* y) {
  const float largest = RowMax(x, classes);
  RowExp(x, largest, 1, classes, y);
  const double sum = RowSum(y, classes);
#pragma omp simd
  for (int64_t c = 0; c < classes; ++c) y[c] = static_cast<float>(y[c] / sum);
}

/// `pixels` neighbouring columns, elements `inner` apart.
void SoftmaxColumns(const float* x, int64_t classes, int64_t inner, int64_t pixels, float* y) {
  float largest[kPixels];
  double sum[kPixels];
  std::copy_n(x, pixels, largest);
  std::fill_n(sum, pixels, 0.0);
  for (int64_t c = 1; c < classes; ++c) {
    for (int64_t s = 0; s < pixels; ++s) largest[s] = std::max(largest[s], x[c * inner + s]);
  }
  for (int64_t c = 0; c < classes; ++c) {
    for (int64_t s = 0; s < pixels; ++s) {
      const float e = std::exp(x[c * inner + s] - largest[s]);
      y[c * inner + s] = e;
      sum[s] += e;
    }
  }
  for (int64_t c = 0; c < classes; ++c) {
    for (int64_t s = 0; s < pixels; ++s) y[c * inner + s] = static_cast<float>(y[c * inner + s] / sum[s]);
  }
}

void GradientColumns(const float* y, const float* dy, int64_t classes, int64_t inner, int64_t pixels, float* dx) {
  double dot[kPixels];
  std::fill_n(dot, pixels, 0.0);
  for (int64_t c = 0; c < classes; ++c) {
    for (int64_t s = 0; s < pixels; ++s) dot[s] += static_cast<double>(dy[c * inner + s]) * y[c * inner + s];
  }
  for (int64_t c = 0; c < classes; ++c) {
    for (int64_t s = 0; s < pixels; ++s) {
      dx[c * inner + s] = static_cast<float>(y[c * inner + s] * (dy[c * inner + s] - dot[s]));
    }
  }
}

/// Calls visit(offset, pixels) for groups of neighbouring columns.
template <typename Visit>
void ForColumns(int64_t outer, int64_t classes, int64_t inner, const Visit& visit) {
  const int64_t groups = (inner + kPixels - 1) / kPixels;
  ForItems(outer * groups, kExpCost * outer * classes * inner, [&](int64_t i) {
    const int64_t begin = i % groups * kPixels;
    visit(i / groups * classes * inner + begin, std::min(kPixels, inner - begin));
  });
}

}  // namespace

void ComputeSoftmax(const float* x, int64_t outer, int64_t classes, int64_t inner, float* y) {
  ForColumns(outer, classes, inner, [=](int64_t offset, int64_t pixels) {
    if (inner == 1) return SoftmaxRow(x + offset, classes, y + offset);
    SoftmaxColumns(x + offset, classes, inner, pixels, y + offset);
  });
}

void ComputeSoftmaxGradient(const float* y, const float* dy, int64_t outer, int64_t classes, int64_t inner, float* dx) {
  ForColumns(outer, classes, inner, [=](int64_t offset, int64_t pixels) {
    GradientColumns(y + offset, dy + offset, classes, inner, pixels, dx + offset);
  });
}

}  // namespace hp
