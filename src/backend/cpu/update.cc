// One pass over gradient, histories and weights, which is bound by memory. Threads take contiguous ranges of whole
// cache lines. Sums of squares are added per block of 32768 values and then over the blocks in order, so the number of
// threads does not change the bits.
#include "backend/cpu/update.h"

#include <omp.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace hp {
namespace {

// Below this the team's fork and join cost more than the pass.
constexpr int64_t kParallelFrom = 1 << 15;
// Threads take ranges that start at cache lines, so that no line has two writers.
constexpr int64_t kLine = 16;
constexpr int64_t kSumBlock = 1 << 15;

// One loop for each rule and regulariser, so that the common ones pay for nothing else. Returns whether all gradients
// were finite.
template <UpdateRule kRule, bool kL1>
bool UpdateRange(const UpdatePart& part, int64_t begin, int64_t end) {
  const UpdateCoefficients local = part.coefficients;  // or it would be loaded again in every turn
  const float* __restrict gradient = part.gradient;
  float* __restrict weights = part.weights;
  // One that the rule does not have is not used.
  float* __restrict history = kRule == UpdateRule::kAverage ? part.weights : part.history;
  float* __restrict second = HasSecond(kRule) ? part.second : part.weights;
  float zero = 0;  // or a NaN: 0 times what is not finite is one
#pragma omp simd reduction(+ : zero)
  for (int64_t i = begin; i < end; ++i) {
    zero += 0 * gradient[i];
    UpdateStep<kRule, kL1>(local, gradient[i], history + i, second + i, weights + i);
  }
  return zero == 0;
}

template <UpdateRule kRule>
auto RangeOf(const UpdateCoefficients& c) {
  return c.l1 != 0 ? UpdateRange<kRule, true> : UpdateRange<kRule, false>;
}

auto RangeFor(const UpdateCoefficients& c) {
  switch (c.rule) {
    case UpdateRule::kNesterov:
      return RangeOf<UpdateRule::kNesterov>(c);
    case UpdateRule::kSquares:
      return RangeOf<UpdateRule::kSquares>(c);
    case UpdateRule::kAdaDelta:
      return RangeOf<UpdateRule::kAdaDelta>(c);
    case UpdateRule::kAdam:
      return RangeOf<UpdateRule::kAdam>(c);
    case UpdateRule::kAverage:
      return RangeOf<UpdateRule::kAverage>(c);
    default:
      return RangeOf<UpdateRule::kSgd>(c);
  }
}

double BlockSum(const float* values, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const double value = values[i];
    sum += value * value;
  }
  return sum;
}

}  // namespace

void UpdateParams(const UpdatePart& part) {
  const auto update = RangeFor(part.coefficients);
  const int64_t n = part.n;
  bool finite = true;
#pragma omp parallel if (n >= kParallelFrom) reduction(&& : finite)
  {
    const int64_t threads = omp_get_num_threads(), lines = (n + kLine - 1) / kLine;
    const int64_t share = (lines + threads - 1) / threads * kLine;
    const int64_t begin = std::min(n, share * omp_get_thread_num()), end = std::min(n, begin + share);
    finite = update(part, begin, end);
  }
  if (!finite && part.not_finite != nullptr) *part.not_finite = std::numeric_limits<double>::quiet_NaN();
}

double SumOfSquares(const float* values, int64_t n) {
  const int64_t blocks = (n + kSumBlock - 1) / kSumBlock;
  std::vector<double> sums(blocks);
#pragma omp parallel for schedule(static) if (n >= kParallelFrom)
  for (int64_t i = 0; i < blocks; ++i) {
    sums[i] = BlockSum(values + i * kSumBlock, std::min(kSumBlock, n - i * kSumBlock));
  }
  double sum = 0;
  for (double block : sums) sum += block;
  return sum;
}

}  // namespace hp
