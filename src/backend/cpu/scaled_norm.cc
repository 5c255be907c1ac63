// A BatchNorm and the Scale behind it as one: what lies between the two is computed again from x wherever it is needed,
// which costs less than to write it and read it back.
#include "backend/cpu/channel_runs.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/element.h"

#include <algorithm>

namespace hp {
namespace {

// The inner loops, in functions of their own for the compiler's sake (activation.cc).

/// y = (x - mean) * times + plus.
template <typename T>
void ScaleRun(const T* x, const float* mean, const float* times, const float* plus, int64_t pixels, int64_t block,
              T* y) {
  if (block == 1) {
    const float of = *mean, by = *times, add = *plus;
#pragma omp simd
    for (int64_t p = 0; p < pixels; ++p) y[p] = (x[p] - of) * by + add;
    return;
  }
  for (int64_t p = 0; p < pixels; ++p) {
    const int64_t at = p * block;
#pragma omp simd
    for (int64_t c = 0; c < block; ++c) y[at + c] = (x[at + c] - mean[c]) * times[c] + plus[c];
  }
}

/// products[c] = the sum of (x - mean) dy over the pixels, sums[c] that of dy.
template <typename T>
void GradientSumsRun(const T* x, const T* dy, const float* mean, int64_t pixels, int64_t block, float* products,
                     float* sums) {
  if (block == 1) {
    const float of = *mean;
    float product = 0, sum = 0;
#pragma omp simd reduction(+ : product, sum)
    for (int64_t p = 0; p < pixels; ++p) product += (x[p] - of) * dy[p], sum += dy[p];
    *products = product;
    *sums = sum;
    return;
  }
  std::fill_n(products, block, 0.0f);
  std::fill_n(sums, block, 0.0f);
  for (int64_t p = 0; p < pixels; ++p) {
    const T *const own = x + p * block, *const gradient = dy + p * block;
#pragma omp simd
    for (int64_t c = 0; c < block; ++c) {
      products[c] += (own[c] - mean[c]) * gradient[c];
      sums[c] += gradient[c];
    }
  }
}

/// dx = dy * times - (x - mean) * product - sum.
template <typename T>
void GradientRun(const T* x, const T* dy, const float* mean, const float* times, const float* product, const float* sum,
                 int64_t pixels, int64_t block, T* dx) {
  if (block == 1) {
    const float of = *mean, by = *times, slope = *product, less = *sum;
#pragma omp simd
    for (int64_t p = 0; p < pixels; ++p) dx[p] = dy[p] * by - (x[p] - of) * slope - less;
    return;
  }
  for (int64_t p = 0; p < pixels; ++p) {
    const int64_t at = p * block;
#pragma omp simd
    for (int64_t c = 0; c < block; ++c) {
      dx[at + c] = dy[at + c] * times[c] - (x[at + c] - mean[c]) * product[c] - sum[c];
    }
  }
}

/// Both gradients need the sums over dy: whichever comes first leaves them in `saved` for the other.
///
/// @tparam T float or BFloat16.
template <typename T>
class ScaledNormOp final : public Op {
 public:
  ScaledNormOp(bool bias, const TensorDesc& in) : bias_(bias), runs_(in) {
    outputs_ = {in};
    const int64_t channels = runs_.channels();
    saved_bytes_ = sizeof(Sums) + 2 * channels * sizeof(float);
    scratch_bytes_ = std::max<int64_t>(2 * runs_.rows, 3) * channels * sizeof(float);
  }

  void Forward(const OpArgs& args) override {
    reinterpret_cast<Sums*>(args.saved)->known = false;
    const T* const x = DataOf<const T>(args.in[0]);
    T* const y = DataOf<T>(args.out[0]);
    const ChannelRuns& runs = runs_;
    const int64_t channels = runs.channels();
    const float *const mean = Moment(args, kMean), *const factor = Moment(args, kFactor);
    float *const times = reinterpret_cast<float*>(args.scratch), *const plus = times + channels;
    for (int64_t c = 0; c < channels; ++c) {
      times[c] = factor[c] * args.params[0].data[c];
      plus[c] = bias_ ? args.params[1].data[c] : 0;
    }
    runs.ForEach([&](int64_t, int64_t c, int64_t at) {
      ScaleRun(x + at, mean + c, times + c, plus + c, runs.pixels, runs.block, y + at);
    });
  }

  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    const T *const x = DataOf<const T>(args.in[0]), *const dy = DataOf<const T>(args.d_out[0]);
    T* const dx = DataOf<T>(args.d_in[0]);
    const ChannelRuns& runs = runs_;
    const int64_t channels = runs.channels();
    const float* const sums = SumsOf(args);  // of (x - mean) dy, then of dy
    const float *const mean = Moment(args, kMean), *const factor = Moment(args, kFactor),
                       *const own_rows = Moment(args, kOwnRows);
    float *const times = reinterpret_cast<float*>(args.scratch), *const product = times + channels,
                 *const sum = product + channels;
    const float each = 1 / static_cast<float>(runs.rows * runs.pixels);
    for (int64_t c = 0; c < channels; ++c) {
      times[c] = factor[c] * args.params[0].data[c];
      const float share = own_rows[c] * each * times[c];
      product[c] = sums[c] * factor[c] * factor[c] * share;
      sum[c] = sums[channels + c] * share;
    }
    runs.ForEach([&](int64_t, int64_t c, int64_t at) {
      GradientRun(x + at, dy + at, mean + c, times + c, product + c, sum + c, runs.pixels, runs.block, dx + at);
    });
  }

  void BackwardParams(const OpArgs& args) override {
    const int64_t channels = runs_.channels();
    const float *const sums = SumsOf(args), *const factor = Moment(args, kFactor);
    for (int64_t c = 0; c < channels; ++c) {
      float* const to = args.d_params[0] + c;
      *to = (args.accumulate ? *to : 0) + sums[c] * factor[c];
    }
    if (!bias_) return;
    for (int64_t c = 0; c < channels; ++c) {
      float* const to = args.d_params[1] + c;
      *to = (args.accumulate ? *to : 0) + sums[channels + c];
    }
  }
  bool backward_reads_output() const override { return false; }

 private:
  /// In `saved`, in front of 2 * channels floats.
  struct alignas(64) Sums {
    bool known;
  };

  const float* Moment(const OpArgs& args, MomentRow row) const { return args.in[1].floats() + row * runs_.channels(); }

  /// Sums of (x - mean) dy, and behind them of dy, [channels] each, over all rows in order.
  const float* SumsOf(const OpArgs& args) const {
    Sums* const saved = reinterpret_cast<Sums*>(args.saved);
    float* const sums = reinterpret_cast<float*>(saved + 1);
    if (saved->known) return sums;
    const T *const x = DataOf<const T>(args.in[0]), *const dy = DataOf<const T>(args.d_out[0]);
    const float* const mean = Moment(args, kMean);
    const ChannelRuns& runs = runs_;
    const int64_t channels = runs.channels();
    float* const of_rows = reinterpret_cast<float*>(args.scratch);
    runs.ForEach([&](int64_t row, int64_t c, int64_t at) {
      float* const products = of_rows + 2 * row * channels + c;
      GradientSumsRun(x + at, dy + at, mean + c, runs.pixels, runs.block, products, products + channels);
    });
    ForItems(2 * channels, 2 * runs.rows * channels, [&](int64_t i) {
      double sum = 0;
      for (int64_t row = 0; row < runs.rows; ++row) sum += of_rows[2 * row * channels + i];
      sums[i] = static_cast<float>(sum);
    });
    saved->known = true;
    return sums;
  }

  const bool bias_;
  const ChannelRuns runs_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::ScaledNorm(bool bias, const Descs& in) {
  return OfElement(in[0].element, [&](auto tag) {
    return OpPtr(std::make_unique<ScaledNormOp<typename decltype(tag)::Type>>(bias, in[0]));
  });
}

}  // namespace hp
