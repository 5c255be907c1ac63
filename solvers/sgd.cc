#include "solvers/sgd.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace hp {
namespace {

// Below this the team's fork and join cost more than the pass.
constexpr int64_t kParallelFrom = 1 << 15;
// Threads take ranges that start at cache lines, so that no line has two writers.
constexpr int64_t kLine = 16;
constexpr int64_t kSumBlock = 1 << 15;

// One loop for each of the regularisers, so that the common ones pay for nothing else.
template <bool kL1>
void UpdateRange(const SgdCoefficients& c, int64_t n, const float* __restrict gradient, float* __restrict history,
                 float* __restrict weights) {
  const float rate = c.rate, momentum = c.momentum, l2 = c.l2, l1 = c.l1, scale = c.gradient_scale;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float w = weights[i];
    float g = scale * gradient[i] + l2 * w;
    if (kL1) g += l1 * (static_cast<float>(w > 0) - static_cast<float>(w < 0));
    const float h = momentum * history[i] + rate * g;
    history[i] = h;
    weights[i] = w - h;
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

SgdCoefficients SgdCoefficientsFor(const caffe::SolverParameter& solver, float rate, float lr_mult, float decay_mult,
                                   float clip_scale) {
  const float decay = solver.weight_decay() * decay_mult;
  const bool l1 = solver.regularization_type() == "L1";
  return {.rate = rate * lr_mult,
          .momentum = solver.momentum(),
          .l2 = l1 ? 0 : decay,
          .l1 = l1 ? decay : 0,
          .gradient_scale = clip_scale / static_cast<float>(solver.iter_size())};
}

void SgdUpdate(const SgdCoefficients& coefficients, int64_t n, const float* gradient, float* history, float* weights) {
  const auto update = coefficients.l1 != 0 ? UpdateRange<true> : UpdateRange<false>;
#pragma omp parallel if (n >= kParallelFrom)
  {
    const int64_t threads = omp_get_num_threads(), lines = (n + kLine - 1) / kLine;
    const int64_t share = (lines + threads - 1) / threads * kLine;
    const int64_t begin = std::min(n, share * omp_get_thread_num()), end = std::min(n, begin + share);
    update(coefficients, end - begin, gradient + begin, history + begin, weights + begin);
  }
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

float ClipScale(const caffe::SolverParameter& solver, double sum_of_squares) {
  const double norm = std::sqrt(sum_of_squares);
  return solver.clip_gradients() >= 0 && norm > solver.clip_gradients() ? solver.clip_gradients() / norm : 1;
}

}  // namespace hp
