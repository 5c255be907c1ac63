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
    scratch_bytes_ = (2 * runs_.rows + 3) * channels * sizeof(float);
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
    const ChannelRuns& runs = runs_;
    Sums* const saved = reinterpret_cast<Sums*>(args.saved);
    if (!saved->known && runs.groups_suffice()) {
      ForItems(runs.groups, runs.count(), [&](int64_t group) {
        const int64_t c = group * runs.block;
        for (int64_t row = 0; row < runs.rows; ++row) SumRun(args, row, c);
        AddRows(args, c);
        FindTerms(args, c);
        // What was read last is in the cache.
        for (int64_t row = runs.rows - 1; row >= 0; --row) FindGradient(args, row, c);
      });
      saved->known = true;
      return;
    }
    SumsOf(args);
    ForItems(runs.groups, runs.channels(), [&](int64_t group) { FindTerms(args, group * runs.block); });
    runs.ForEach([&](int64_t row, int64_t c, int64_t) { FindGradient(args, row, c); });
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
    const ChannelRuns& runs = runs_;
    if (!saved->known) {
      runs.ForEach([&](int64_t row, int64_t c, int64_t) { SumRun(args, row, c); });
      ForItems(runs.groups, 2 * runs.rows * runs.channels(), [&](int64_t group) { AddRows(args, group * runs.block); });
      saved->known = true;
    }
    return reinterpret_cast<const float*>(saved + 1);
  }

  // Each of the channels [c, c + block) of a group, whose run is that of `row`.

  /// A row's sums, into scratch.
  void SumRun(const OpArgs& args, int64_t row, int64_t c) const {
    const int64_t channels = runs_.channels(), at = runs_.Offset(row, c);
    float* const products = reinterpret_cast<float*>(args.scratch) + 2 * row * channels + c;
    GradientSumsRun(DataOf<const T>(args.in[0]) + at, DataOf<const T>(args.d_out[0]) + at, Moment(args, kMean) + c,
                    runs_.pixels, runs_.block, products, products + channels);
  }
  /// Those of all rows, into saved.
  void AddRows(const OpArgs& args, int64_t c) const {
    const int64_t channels = runs_.channels();
    const float* const of_rows = reinterpret_cast<const float*>(args.scratch);
    float* const sums = reinterpret_cast<float*>(reinterpret_cast<Sums*>(args.saved) + 1);
    for (int64_t first : {c, channels + c}) {
      for (int64_t i = first; i < first + runs_.block; ++i) {
        double sum = 0;
        for (int64_t row = 0; row < runs_.rows; ++row) sum += of_rows[2 * row * channels + i];
        sums[i] = static_cast<float>(sum);
      }
    }
  }
  /// What GradientRun takes: times, product, sum, [channels] each, in scratch behind the rows' sums.
  float* TermsOf(const OpArgs& args) const {
    return reinterpret_cast<float*>(args.scratch) + 2 * runs_.rows * runs_.channels();
  }
  void FindTerms(const OpArgs& args, int64_t c) const {
    const int64_t channels = runs_.channels(), end = c + runs_.block;
    const float* const sums = reinterpret_cast<const float*>(reinterpret_cast<const Sums*>(args.saved) + 1);
    const float *const factor = Moment(args, kFactor), *const own_rows = Moment(args, kOwnRows);
    float *const times = TermsOf(args), *const product = times + channels, *const sum = product + channels;
    const float each = 1 / static_cast<float>(runs_.rows * runs_.pixels);
    for (int64_t i = c; i < end; ++i) {
      times[i] = factor[i] * args.params[0].data[i];
      const float share = own_rows[i] * each * times[i];
      product[i] = sums[i] * factor[i] * factor[i] * share;
      sum[i] = sums[channels + i] * share;
    }
  }
  void FindGradient(const OpArgs& args, int64_t row, int64_t c) const {
    const int64_t channels = runs_.channels(), at = runs_.Offset(row, c);
    const float* const terms = TermsOf(args) + c;
    GradientRun(DataOf<const T>(args.in[0]) + at, DataOf<const T>(args.d_out[0]) + at, Moment(args, kMean) + c, terms,
                terms + channels, terms + 2 * channels, runs_.pixels, runs_.block, DataOf<T>(args.d_in[0]) + at);
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
