// A BatchNorm and the Scale behind it as one: what lies between the two is computed again from x wherever it is needed,
// which costs less than to write it and read it back.
#include "backend/cpu/channel_runs.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/element.h"
#include "backend/cpu/relu_runs.h"
#include "backend/cpu/vec.h"

#include <algorithm>
#include <type_traits>

namespace hp {
namespace {

/// What elements of W channels are scaled by: y = (x - mean) * times + plus.
template <int W>
struct Scale {
  FloatVec<W> mean, times, plus;
  FloatVec<W> Value(FloatVec<W> x) const { return (x - mean) * times + plus; }
};
struct Scales {
  const float *mean, *times, *plus;
  template <int W>
  Scale<W> Of(int64_t c) const {
    return {Load<W>(mean + c), Load<W>(times + c), Load<W>(plus + c)};
  }
  /// The first one, in all lanes.
  template <int W>
  Scale<W> InAllLanes() const {
    return {FloatVec<W>{} + *mean, FloatVec<W>{} + *times, FloatVec<W>{} + *plus};
  }
};

// What follows the scale: nothing, or a ReLU.
struct Plain {
  template <typename T, int W>
  static void StoreValue(T* to, FloatVec<W> y) {
    Store<W>(to, y);
  }
  template <typename T, int W>
  static FloatVec<W> Gradient(FloatVec<W> /*x*/, const Scale<W>&, FloatVec<W> dy) {
    return dy;
  }
};
struct Relu {
  template <typename T, int W>
  static void StoreValue(T* to, FloatVec<W> y) {
    StoreRelu<T, W>(to, y);
  }
  template <typename T, int W>
  static FloatVec<W> Gradient(FloatVec<W> x, const Scale<W>& scale, FloatVec<W> dy) {
    return ReluGradient<T, W>(scale.Value(x), dy);
  }
};

template <typename After, typename T>
void ScaleRun(const T* x, const Scales& scales, int64_t pixels, int64_t block, T* y) {
  const auto scale_at = [&](auto width, int64_t at, const auto& scale) {
    constexpr int W = decltype(width)::value;
    After::template StoreValue<T, W>(y + at, scale.Value(Load<W>(x + at)));
  };
  if (block == 1) {
    return ForEachChunk(
        pixels, [&](auto width, int64_t p) { scale_at(width, p, scales.InAllLanes<decltype(width)::value>()); });
  }
  for (int64_t p = 0; p < pixels; ++p) {
    ForEachChunk(block,
                 [&](auto width, int64_t c) { scale_at(width, p * block + c, scales.Of<decltype(width)::value>(c)); });
  }
}

/// products[c] = the sum of (x - mean) dy over the pixels, sums[c] that of dy, dy being the gradient of y.
template <typename After, typename T>
void GradientSumsRun(const T* x, const T* dy, const Scales& scales, int64_t pixels, int64_t block, float* products,
                     float* sums) {
  const auto add_at = [&](auto width, int64_t at, const auto& scale, auto* product, auto* sum) {
    constexpr int W = decltype(width)::value;
    const FloatVec<W> own = Load<W>(x + at);
    const FloatVec<W> gradient = After::template Gradient<T, W>(own, scale, Load<W>(dy + at));
    *product += (own - scale.mean) * gradient;
    *sum += gradient;
  };
  if (block == 1) {
    FloatVec<kMostLanes> product{}, sum{};
    const auto scale = scales.InAllLanes<kMostLanes>();
    const int64_t whole = pixels / kMostLanes * kMostLanes;
    for (int64_t p = 0; p < whole; p += kMostLanes) {
      add_at(std::integral_constant<int, kMostLanes>(), p, scale, &product, &sum);
    }
    FloatVec<1> last_product{}, last_sum{};
    for (int64_t p = whole; p < pixels; ++p) {
      add_at(std::integral_constant<int, 1>(), p, scales.InAllLanes<1>(), &last_product, &last_sum);
    }
    *products = last_product[0];
    *sums = last_sum[0];
    for (int i = 0; i < kMostLanes; ++i) {
      *products += product[i];
      *sums += sum[i];
    }
    return;
  }
  std::fill_n(products, block, 0.0f);
  std::fill_n(sums, block, 0.0f);
  for (int64_t p = 0; p < pixels; ++p) {
    ForEachChunk(block, [&](auto width, int64_t c) {
      constexpr int W = decltype(width)::value;
      FloatVec<W> product = Load<W>(products + c), sum = Load<W>(sums + c);
      add_at(width, p * block + c, scales.Of<W>(c), &product, &sum);
      Store<W>(products + c, product);
      Store<W>(sums + c, sum);
    });
  }
}

/// dx = dy * times - (x - mean) * product - sum.
template <typename After, typename T>
void GradientRun(const T* x, const T* dy, const Scales& scales, const float* product, const float* sum, int64_t pixels,
                 int64_t block, T* dx) {
  const auto find_at = [&](auto width, int64_t at, const auto& scale, auto slope, auto less) {
    constexpr int W = decltype(width)::value;
    const FloatVec<W> own = Load<W>(x + at);
    const FloatVec<W> gradient = After::template Gradient<T, W>(own, scale, Load<W>(dy + at));
    Store<W>(dx + at, gradient * scale.times - (own - scale.mean) * slope - less);
  };
  if (block == 1) {
    return ForEachChunk(pixels, [&](auto width, int64_t p) {
      constexpr int W = decltype(width)::value;
      find_at(width, p, scales.InAllLanes<W>(), FloatVec<W>{} + *product, FloatVec<W>{} + *sum);
    });
  }
  for (int64_t p = 0; p < pixels; ++p) {
    ForEachChunk(block, [&](auto width, int64_t c) {
      constexpr int W = decltype(width)::value;
      find_at(width, p * block + c, scales.Of<W>(c), Load<W>(product + c), Load<W>(sum + c));
    });
  }
}

/// Both gradients need the sums over dy: whichever comes first leaves them in `saved` for the other. A ReLU behind it
/// costs no pass of its own: whether an element passed follows from x.
///
/// @tparam T float or BFloat16.
template <typename T>
class ScaledNormOp final : public Op {
 public:
  ScaledNormOp(bool bias, const TensorDesc& in) : bias_(bias), runs_(in) {
    outputs_ = {in};
    const int64_t channels = runs_.channels();
    saved_bytes_ = sizeof(Sums) + 2 * channels * sizeof(float);
    scratch_bytes_ = (2 * runs_.rows + 4) * channels * sizeof(float);
  }

  void Forward(const OpArgs& args) override {
    reinterpret_cast<Sums*>(args.saved)->known = false;
    const T* const x = DataOf<const T>(args.in[0]);
    T* const y = DataOf<T>(args.out[0]);
    const ChannelRuns& runs = runs_;
    ForItems(runs.groups, runs.channels(), [&](int64_t group) { FindScales(args, group * runs.block); });
    With(before_relu_, [&](auto after) {
      runs.ForEach([&](int64_t, int64_t c, int64_t at) {
        ScaleRun<decltype(after)>(x + at, ScalesOf(args, c), runs.pixels, runs.block, y + at);
      });
    });
  }

  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    const ChannelRuns& runs = runs_;
    Sums* const saved = reinterpret_cast<Sums*>(args.saved);
    if (!saved->known && runs.groups_suffice()) {
      ForItems(runs.groups, runs.count(), [&](int64_t group) {
        const int64_t c = group * runs.block;
        FindScales(args, c);
        for (int64_t row = 0; row < runs.rows; ++row) SumRun(args, row, c);
        AddRows(args, c, runs.block);
        FindTerms(args, c);
        // What was read last is in the cache.
        for (int64_t row = runs.rows - 1; row >= 0; --row) FindGradient(args, row, c);
      });
      saved->known = true;
      return;
    }
    SumsOf(args);
    ForItems(runs.groups, runs.channels(), [&](int64_t group) {
      FindScales(args, group * runs.block);
      FindTerms(args, group * runs.block);
    });
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
  bool TakeReluBehind() override {
    before_relu_ = true;
    return true;
  }
  bool TakeReluGradientBehind() override {
    CHECK(before_relu_);
    takes_relus_gradient_ = true;
    return true;
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
      ForItems(runs.groups, runs.channels(), [&](int64_t group) { FindScales(args, group * runs.block); });
      runs.ForEach([&](int64_t row, int64_t c, int64_t) { SumRun(args, row, c); });
      ForItems(runs.channels(), 2 * runs.rows * runs.channels(), [&](int64_t c) { AddRows(args, c, 1); });
      saved->known = true;
    }
    return reinterpret_cast<const float*>(saved + 1);
  }

  // Each of the channels [c, c + block) of a group, whose run is that of `row`.

  /// times and plus, in scratch, before anything that takes ScalesOf.
  void FindScales(const OpArgs& args, int64_t c) const {
    const float* const factor = Moment(args, kFactor);
    float *const times = TermsOf(args), *const plus = times + runs_.channels();
    for (int64_t i = c; i < c + runs_.block; ++i) {
      times[i] = factor[i] * args.params[0].data[i];
      plus[i] = bias_ ? args.params[1].data[i] : 0;
    }
  }
  Scales ScalesOf(const OpArgs& args, int64_t c) const {
    const float* const times = TermsOf(args);
    return {Moment(args, kMean) + c, times + c, times + runs_.channels() + c};
  }
  /// A row's sums, into scratch.
  void SumRun(const OpArgs& args, int64_t row, int64_t c) const {
    const int64_t channels = runs_.channels(), at = runs_.Offset(row, c);
    float* const products = reinterpret_cast<float*>(args.scratch) + 2 * row * channels + c;
    With(takes_relus_gradient_, [&](auto after) {
      GradientSumsRun<decltype(after)>(DataOf<const T>(args.in[0]) + at, DataOf<const T>(args.d_out[0]) + at,
                                       ScalesOf(args, c), runs_.pixels, runs_.block, products, products + channels);
    });
  }
  /// Those of all rows, of channels [c, c + count), into saved.
  void AddRows(const OpArgs& args, int64_t c, int64_t count) const {
    const int64_t channels = runs_.channels();
    const float* const of_rows = reinterpret_cast<const float*>(args.scratch);
    float* const sums = reinterpret_cast<float*>(reinterpret_cast<Sums*>(args.saved) + 1);
    for (int64_t first : {c, channels + c}) {
      for (int64_t i = first; i < first + count; ++i) {
        double sum = 0;
        for (int64_t row = 0; row < runs_.rows; ++row) sum += of_rows[2 * row * channels + i];
        sums[i] = static_cast<float>(sum);
      }
    }
  }
  /// times, plus, and product and sum, which GradientRun takes: [channels] each, in scratch behind the rows' sums.
  float* TermsOf(const OpArgs& args) const {
    return reinterpret_cast<float*>(args.scratch) + 2 * runs_.rows * runs_.channels();
  }
  void FindTerms(const OpArgs& args, int64_t c) const {
    const int64_t channels = runs_.channels();
    const float* const sums = reinterpret_cast<const float*>(reinterpret_cast<const Sums*>(args.saved) + 1);
    const float *const factor = Moment(args, kFactor), *const own_rows = Moment(args, kOwnRows);
    float *const times = TermsOf(args), *const product = times + 2 * channels, *const sum = product + channels;
    const float each = 1 / static_cast<float>(runs_.rows * runs_.pixels);
    for (int64_t i = c; i < c + runs_.block; ++i) {
      const float share = own_rows[i] * each * times[i];
      product[i] = sums[i] * factor[i] * factor[i] * share;
      sum[i] = sums[channels + i] * share;
    }
  }
  void FindGradient(const OpArgs& args, int64_t row, int64_t c) const {
    const int64_t channels = runs_.channels(), at = runs_.Offset(row, c);
    const float* const product = TermsOf(args) + 2 * channels + c;
    With(takes_relus_gradient_, [&](auto after) {
      GradientRun<decltype(after)>(DataOf<const T>(args.in[0]) + at, DataOf<const T>(args.d_out[0]) + at,
                                   ScalesOf(args, c), product, product + channels, runs_.pixels, runs_.block,
                                   DataOf<T>(args.d_in[0]) + at);
    });
  }

  template <typename Run>
  static void With(bool relu, const Run& run) {
    relu ? run(Relu()) : run(Plain());
  }

  const bool bias_;
  const ChannelRuns runs_;
  bool before_relu_ = false, takes_relus_gradient_ = false;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::ScaledNorm(bool bias, const Descs& in) {
  return OfElement(in[0].element, [&](auto tag) {
    return OpPtr(std::make_unique<ScaledNormOp<typename decltype(tag)::Type>>(bias, in[0]));
  });
}

}  // namespace hp
