// Runs of memory first (ChannelRuns), each in the cache for as long as it is needed, then a few numbers for each
// channel, row by row in double: the bits do not depend on the number of threads.
#include "backend/batch_average.h"
#include "backend/cpu/channel_runs.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/element.h"
#include "backend/cpu/moment_runs.h"

#include "glog/logging.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace hp {
namespace {

/// [channels] each.
struct ChannelMoments {
  float *mean, *variance, *factor;
};

/// Where means and variances come from, and their share in the averages that training gathers.
///
/// @tparam T float or BFloat16.
template <typename T>
class MomentsOf {
 public:
  MomentsOf(const BatchNormDesc& desc, const TensorDesc& in) : desc_(desc), runs_(in) {}

  const ChannelRuns& runs() const { return runs_; }
  /// Floats of what Find uses.
  int64_t scratch() const { return 2 * runs_.rows * runs_.channels(); }
  bool OfRows(const OpArgs& args) const { return args.batch->train && !desc_.global; }

  void Find(const OpArgs& args, const ChannelMoments& moments) const {
    if (!OfRows(args)) return Take(args, moments);
    OfAllRows(DataOf<const T>(args.in[0]), reinterpret_cast<float*>(args.scratch), moments);
  }

  /// Op::BackwardParams.
  void Average(const OpArgs& args, const ChannelMoments& moments) const {
    const BatchAverage average = BatchAverage::Make(desc_, runs_.rows, runs_.pixels, *args.batch);
    const float weight = average.WeightAt(args.batch->first_sample);
    float *const d_mean = args.d_params[0], *const d_variance = args.d_params[1], *const d_weight = args.d_params[2];
    for (int64_t c = 0; c < runs_.channels(); ++c) {
      d_mean[c] = (args.accumulate ? d_mean[c] : 0) + weight * moments.mean[c];
      d_variance[c] = (args.accumulate ? d_variance[c] : 0) + weight * average.unbiased * moments.variance[c];
    }
    d_weight[0] = (args.accumulate ? d_weight[0] : 0) + weight;
  }

 private:
  float FactorOf(double variance) const { return static_cast<float>(1 / std::sqrt(variance + desc_.eps)); }

  /// Each run's mean, and its sum of squared differences from it, then those of all rows together.
  /// Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
  void OfAllRows(const T* x, float* scratch, const ChannelMoments& moments) const {
    const ChannelRuns& runs = runs_;
    const int64_t channels = runs.channels();
    const float per_pixel = 1 / static_cast<float>(runs.pixels);
    float *const means = scratch, *const squares = scratch + runs.rows * channels;
    runs.ForEach([&](int64_t row, int64_t c, int64_t at) {
      float* const mean = means + row * channels + c;
      SumRun(x + at, runs.pixels, runs.block, mean);
      for (int64_t i = 0; i < runs.block; ++i) mean[i] *= per_pixel;
      SquareRun(x + at, mean, runs.pixels, runs.block, squares + row * channels + c);
    });
    ForItems(channels, runs.rows * channels, [&](int64_t c) {
      double mean = 0, square = 0;
      for (int64_t row = 0; row < runs.rows; ++row) {
        const double difference = means[row * channels + c] - mean, share = 1 / (row + 1.0);
        mean += difference * share;
        square += squares[row * channels + c] +
                  difference * difference * static_cast<double>(row) * share * static_cast<double>(runs.pixels);
      }
      const double variance = square / static_cast<double>(runs.rows * runs.pixels);
      moments.mean[c] = static_cast<float>(mean);
      moments.variance[c] = static_cast<float>(variance);
      moments.factor[c] = FactorOf(variance);
    });
  }

  /// The averages that training has gathered; all zero before it began.
  void Take(const OpArgs& args, const ChannelMoments& moments) const {
    const float weight = *args.params[2].data, scale = weight == 0 ? 0 : 1 / weight;
    for (int64_t c = 0; c < runs_.channels(); ++c) {
      moments.mean[c] = scale * args.params[0].data[c];
      moments.variance[c] = scale * args.params[1].data[c];
      moments.factor[c] = FactorOf(moments.variance[c]);
    }
  }

  const BatchNormDesc desc_;
  const ChannelRuns runs_;
};

/// The gradient is computed from y, which is the normalised input: it works in place. Saved for the backward pass are
/// mean, variance and factor 1 / sqrt(variance + eps) of each channel.
///
/// @tparam T float or BFloat16.
template <typename T>
class BatchNormOp final : public Op {
 public:
  BatchNormOp(const BatchNormDesc& desc, const TensorDesc& in) : moments_(desc, in), runs_(in) {
    outputs_ = {in};
    saved_bytes_ = 3 * runs_.channels() * sizeof(float);
    scratch_bytes_ = (moments_.scratch() + 2 * runs_.channels()) * sizeof(float);
  }

  void Forward(const OpArgs& args) override {
    const T* const x = DataOf<const T>(args.in[0]);
    T* const y = DataOf<T>(args.out[0]);
    const ChannelMoments moments = Saved(args);
    moments_.Find(args, moments);
    const ChannelRuns& runs = runs_;
    runs.ForEach([&](int64_t, int64_t c, int64_t at) {
      NormalizeRun(x + at, moments.mean + c, moments.factor + c, runs.pixels, runs.block, y + at);
    });
  }

  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    const T *const y = DataOf<const T>(args.out[0]), *const dy = DataOf<const T>(args.d_out[0]);
    T* const dx = DataOf<T>(args.d_in[0]);
    const ChannelMoments moments = Saved(args);
    const int64_t channels = runs_.channels();
    float *const of_rows = reinterpret_cast<float*>(args.scratch), *const a = of_rows + 2 * runs_.rows * channels,
                 *const b = a + channels;
    if (moments_.OfRows(args)) {
      FindGradientSums(y, dy, of_rows, a, b);
    } else {
      std::fill_n(a, 2 * channels, 0.0f);
    }
    const ChannelRuns& runs = runs_;
    runs.ForEach([&](int64_t, int64_t c, int64_t at) {
      NormalizedGradientRun(y + at, dy + at, a + c, b + c, moments.factor + c, runs.pixels, runs.block, dx + at);
    });
  }

  void BackwardParams(const OpArgs& args) override { moments_.Average(args, Saved(args)); }
  bool backward_reads_input() const override { return false; }

 private:
  ChannelMoments Saved(const OpArgs& args) const {
    float* const saved = reinterpret_cast<float*>(args.saved);
    return {saved, saved + runs_.channels(), saved + 2 * runs_.channels()};
  }

  /// a = the mean of dy, b = that of dy y.
  void FindGradientSums(const T* y, const T* dy, float* scratch, float* a, float* b) const {
    const ChannelRuns& runs = runs_;
    const int64_t channels = runs.channels();
    float *const sums = scratch, *const products = scratch + runs.rows * channels;
    runs.ForEach([&](int64_t row, int64_t c, int64_t at) {
      const int64_t first = row * channels + c;
      SumGradients(y + at, dy + at, runs.pixels, runs.block, products + first, sums + first);
    });
    const double each = 1 / static_cast<double>(runs.rows * runs.pixels);
    ForItems(channels, runs.rows * channels, [&](int64_t c) {
      double sum = 0, product = 0;
      for (int64_t row = 0; row < runs.rows; ++row) {
        sum += sums[row * channels + c];
        product += products[row * channels + c];
      }
      a[c] = static_cast<float>(sum * each);
      b[c] = static_cast<float>(product * each);
    });
  }

  const MomentsOf<T> moments_;
  const ChannelRuns runs_;
};

/// @tparam T float or BFloat16.
template <typename T>
class MomentsOp final : public Op {
 public:
  MomentsOp(const BatchNormDesc& desc, const TensorDesc& in) : moments_(desc, in) {
    outputs_ = {in, {{kMomentRows, in.shape[1]}, 1}};
    scratch_bytes_ = moments_.scratch() * sizeof(float);
  }

  void Forward(const OpArgs& args) override {
    CHECK_EQ(args.in[0].data, args.out[0].data) << "output 0 is the input";
    moments_.Find(args, Moments(args));
    const int64_t channels = moments_.runs().channels();
    std::fill_n(args.out[1].floats() + kOwnRows * channels, channels, moments_.OfRows(args) ? 1.0f : 0.0f);
  }

  void BackwardInput(const OpArgs& args) override {
    void* const dx = args.d_in[0].data;
    if (dx != nullptr && dx != args.d_out[0].data) std::memcpy(dx, args.d_out[0].data, outputs_[0].bytes());
  }

  void BackwardParams(const OpArgs& args) override { moments_.Average(args, Moments(args)); }
  bool backward_reads_input() const override { return false; }

 private:
  ChannelMoments Moments(const OpArgs& args) const {
    float* const rows = args.out[1].floats();
    const int64_t channels = moments_.runs().channels();
    return {rows + kMean * channels, rows + kVariance * channels, rows + kFactor * channels};
  }

  const MomentsOf<T> moments_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::BatchNorm(const BatchNormDesc& desc, const Descs& in) {
  return OfElement(in[0].element, [&](auto tag) {
    return OpPtr(std::make_unique<BatchNormOp<typename decltype(tag)::Type>>(desc, in[0]));
  });
}

StatusOr<Backend::OpPtr> CpuBackend::Moments(const BatchNormDesc& desc, const Descs& in) {
  return OfElement(in[0].element, [&](auto tag) {
    return OpPtr(std::make_unique<MomentsOp<typename decltype(tag)::Type>>(desc, in[0]));
  });
}

}  // namespace hp
