#include "backend/cuda/ops.h"
#include "backend/cuda/pack.h"
#include "backend/update.h"

#include <algorithm>

namespace hp::cuda {
namespace {

/// Reads gradient, history and weights, writes the last two.
template <bool kL1>
struct Update {
  SgdCoefficients coefficients;
  const float* gradient;
  float *history, *weights;
  template <int W>
  HP_HOST_DEVICE void Run(int64_t i) const {
    const Pack<float, W> g = LoadPack<W>(gradient + i);
    Pack<float, W> h = LoadPack<W>(history + i), w = LoadPack<W>(weights + i);
    for (int k = 0; k < W; ++k) SgdStep<kL1>(coefficients, g.of[k], &h.of[k], &w.of[k]);
    StorePack(history + i, h);
    StorePack(weights + i, w);
  }
};

struct DoubleSum {
  using Value = double;
  HP_HOST_DEVICE double Identity() const { return 0; }
  HP_HOST_DEVICE double Combine(double a, double b) const { return a + b; }
};

/// The squares of each part of `length` values (of fewer in the last one).
struct SquaresOfParts : DoubleSum {
  const float* values;
  int64_t n, length;
  double* sums;
  SquaresOfParts(const float* values, int64_t n, int64_t length, double* sums)
      : values(values), n(n), length(length), sums(sums) {}
  HP_HOST_DEVICE double Map(int64_t row, int64_t i) const {
    const int64_t at = row * length + i;
    const double value = at < n ? values[at] : 0.0f;
    return value * value;
  }
  HP_HOST_DEVICE void Finish(int64_t row, double sum) const { sums[row] = sum; }
};

struct SumOfParts : DoubleSum {
  const double* parts;
  double* sum;
  SumOfParts(const double* parts, double* sum) : parts(parts), sum(sum) {}
  HP_HOST_DEVICE double Map(int64_t, int64_t i) const { return parts[i]; }
  HP_HOST_DEVICE void Finish(int64_t, double value) const { *sum = value; }
};

}  // namespace

void SgdUpdate(const GpuStream& stream, const SgdCoefficients& coefficients, int64_t n, const float* gradient,
               float* history, float* weights) {
  const bool packable = Packable({gradient, history, weights});
  if (coefficients.l1 != 0) {
    ForEachPack<4>(stream, n, packable, Update<true>{coefficients, gradient, history, weights});
  } else {
    ForEachPack<4>(stream, n, packable, Update<false>{coefficients, gradient, history, weights});
  }
}

void SumOfSquares(const GpuContext& context, const float* values, int64_t n, double* sum) {
  constexpr int64_t kLeast = 4096;  // values that a block of threads is worth waking for
  const int64_t length = std::max(kLeast, (n + kPartialSums - 1) / kPartialSums);
  const int64_t parts = (n + length - 1) / length;
  ReduceRows(context.stream(), parts, length, SquaresOfParts(values, n, length, context.partial_sums));
  ReduceRows(context.stream(), 1, parts, SumOfParts(context.partial_sums, sum));
}

}  // namespace hp::cuda
