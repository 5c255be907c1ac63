#pragma once

#include "backend/cpu/vec.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

// Loops over the elements of one row, in lanes that the compiler makes vectors of: sums and maxima of lanes first, then
// of the lanes in their order, so the bits depend on the row's length alone.
#if defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC__) && defined(__x86_64__)
// Tells GCC, which else does so with -ffast-math alone, that glibc's libmvec has these functions for vectors (within 4
// units in the last place, and right for NaN and infinity).
#pragma omp declare simd notinbranch
extern "C" float expf(float) noexcept;
#pragma omp declare simd notinbranch
extern "C" float logf(float) noexcept;
#if __GLIBC_PREREQ(2, 35)
#pragma omp declare simd notinbranch
extern "C" float log1pf(float) noexcept;
#endif
#pragma omp declare simd notinbranch
extern "C" float powf(float, float) noexcept;
#endif

namespace hp {

constexpr int64_t kRowLanes = 16;

/// The largest of x[0, count) that is not NaN; -infinity: there is none.
inline float RowMax(const float* x, int64_t count) {
  float lanes[kRowLanes];
  std::fill_n(lanes, kRowLanes, -std::numeric_limits<float>::infinity());
  const int64_t whole = count / kRowLanes * kRowLanes;
  for (int64_t i = 0; i < whole; i += kRowLanes) {
#pragma omp simd
    for (int64_t lane = 0; lane < kRowLanes; ++lane)
      lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
  }
  for (int64_t i = whole; i < count; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  return *std::max_element(lanes, lanes + kRowLanes);
}

/// The sum of x[0, count).
inline double RowSum(const float* x, int64_t count) {
  double lanes[kRowLanes] = {};
  const int64_t whole = count / kRowLanes * kRowLanes;
  for (int64_t i = 0; i < whole; i += kRowLanes) {
#pragma omp simd
    for (int64_t lane = 0; lane < kRowLanes; ++lane) lanes[lane] += x[i + lane];
  }
  for (int64_t i = whole; i < count; ++i) lanes[0] += x[i];
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

/// The sum of a[i] * b[i] over [0, count): in float over pieces of 4096, in double over these.
inline double RowDot(const float* a, const float* b, int64_t count) {
  constexpr int64_t kPiece = 4096, kVectors = 4;  // as many sums at a time, or each would wait for the one before
  double sum = 0;
  for (int64_t begin = 0; begin < count; begin += kPiece) {
    const int64_t end = std::min(count, begin + kPiece);
    FloatVec<kRowLanes> sums[kVectors] = {};
    int64_t i = begin;
    for (; i + kVectors * kRowLanes <= end; i += kVectors * kRowLanes) {
      for (int v = 0; v < kVectors; ++v) {
        sums[v] += Load<kRowLanes>(a + i + v * kRowLanes) * Load<kRowLanes>(b + i + v * kRowLanes);
      }
    }
    for (; i + kRowLanes <= end; i += kRowLanes) sums[0] += Load<kRowLanes>(a + i) * Load<kRowLanes>(b + i);
    const FloatVec<kRowLanes> all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    for (int lane = 0; lane < kRowLanes; ++lane) sum += all[lane];
    for (; i < end; ++i) sum += static_cast<double>(a[i]) * b[i];
  }
  return sum;
}

/// y = factor * exp(x - shift) for `count` elements; x and y may be the same memory.
inline void RowExp(const float* x, float shift, float factor, int64_t count, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = factor * expf(x[i] - shift);
}

}  // namespace hp
