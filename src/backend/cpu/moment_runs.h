#pragma once

#include <algorithm>
#include <cstdint>

// Means, squared differences and what is normalised by them, of a run of memory (ChannelRuns); T is float or BFloat16.
namespace hp {

// The inner loops, in functions of their own for the compiler's sake (activation.cc). `block` channels lie side by
// side; with one the loop is along the pixels.

/// sums[c] = the sum of x over the pixels.
template <typename T>
void SumRun(const T* x, int64_t pixels, int64_t block, float* sums) {
  if (block == 1) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t p = 0; p < pixels; ++p) sum += x[p];
    sums[0] = sum;
    return;
  }
  std::fill_n(sums, block, 0.0f);
  for (int64_t p = 0; p < pixels; ++p) {
#pragma omp simd
    for (int64_t c = 0; c < block; ++c) sums[c] += x[p * block + c];
  }
}

/// squares[c] = the sum of (x - centre)^2 over the pixels.
template <typename T>
void SquareRun(const T* x, const float* centre, int64_t pixels, int64_t block, float* squares) {
  if (block == 1) {
    const float of = *centre;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t p = 0; p < pixels; ++p) sum += (x[p] - of) * (x[p] - of);
    squares[0] = sum;
    return;
  }
  std::fill_n(squares, block, 0.0f);
  for (int64_t p = 0; p < pixels; ++p) {
    const T* const own = x + p * block;
#pragma omp simd
    for (int64_t c = 0; c < block; ++c) squares[c] += (own[c] - centre[c]) * (own[c] - centre[c]);
  }
}

/// y = (x - mean) * factor.
template <typename T>
void NormalizeRun(const T* x, const float* mean, const float* factor, int64_t pixels, int64_t block, T* y) {
  if (block == 1) {
    const float of = *mean, by = *factor;
#pragma omp simd
    for (int64_t p = 0; p < pixels; ++p) y[p] = (x[p] - of) * by;
    return;
  }
  for (int64_t p = 0; p < pixels; ++p) {
#pragma omp simd
    for (int64_t c = 0; c < block; ++c) y[p * block + c] = (x[p * block + c] - mean[c]) * factor[c];
  }
}

/// dx = (dy - a - y b) * factor.
template <typename T>
void NormalizedGradientRun(const T* y, const T* dy, const float* a, const float* b, const float* factor, int64_t pixels,
                           int64_t block, T* dx) {
  if (block == 1) {
    const float less = *a, times = *b, by = *factor;
#pragma omp simd
    for (int64_t p = 0; p < pixels; ++p) dx[p] = (dy[p] - less - y[p] * times) * by;
    return;
  }
  for (int64_t p = 0; p < pixels; ++p) {
    const int64_t at = p * block;
#pragma omp simd
    for (int64_t c = 0; c < block; ++c) dx[at + c] = (dy[at + c] - a[c] - y[at + c] * b[c]) * factor[c];
  }
}

}  // namespace hp
