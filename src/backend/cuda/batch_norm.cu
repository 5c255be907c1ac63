#include "backend/batch_average.h"
#include "backend/cuda/channel_sums.h"
#include "backend/cuda/channels.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/element.h"

#include <math.h>

namespace hp::cuda {
namespace {

/// [channels] each; mean, variance and factor 1 / sqrt(variance + eps).
struct SavedMoments {
  float *mean, *variance, *factor;
};

template <typename T>
struct SaveMoments {
  float eps;
  SavedMoments to;
  HP_HOST_DEVICE void operator()(int64_t channel, const typename MomentsOf<T>::Value& value) const {
    const float variance = value.squares / value.count;
    to.mean[channel] = value.mean;
    to.variance[channel] = variance;
    to.factor[channel] = 1 / sqrtf(variance + eps);
  }
};

/// The averages that training has gathered; all zero before it began.
struct TakeMoments {
  float eps;
  const float *mean, *variance, *weight;
  SavedMoments to;
  HP_HOST_DEVICE void operator()(int64_t channel) const {
    const float scale = *weight == 0 ? 0 : 1 / *weight;
    to.mean[channel] = scale * mean[channel];
    to.variance[channel] = scale * variance[channel];
    to.factor[channel] = 1 / sqrtf(to.variance[channel] + eps);
  }
};

template <typename T>
struct Normalize {
  SavedMoments of;
  const T* x;
  T* y;
  HP_HOST_DEVICE void operator()(int64_t at, uint32_t channel) const {
    Put((ToFloat(x[at]) - of.mean[channel]) * of.factor[channel], y + at);
  }
};

template <typename T>
struct SaveMeans {
  float each;  ///< 1 / elements of a channel
  float *sum, *product;
  HP_HOST_DEVICE void operator()(int64_t channel, const typename GradientSums<T>::Value& value) const {
    sum[channel] = value.sum * each;
    product[channel] = value.product * each;
  }
};

/// dx = (dy - a - y b) * factor; without a and b: dy * factor.
template <typename T>
struct Gradient {
  const float *factor, *a, *b;
  const T *y, *dy;
  T* dx;
  HP_HOST_DEVICE void operator()(int64_t at, uint32_t channel) const {
    float gradient = ToFloat(dy[at]);
    if (a != nullptr) gradient -= a[channel] + ToFloat(y[at]) * b[channel];
    Put(gradient * factor[channel], dx + at);
  }
};

struct AverageGradient {
  BatchAverage average;
  SavedMoments of;
  const uint64_t* first_sample;
  bool add;
  float *d_mean, *d_variance, *d_weight;
  HP_HOST_DEVICE void operator()(int64_t channel) const {
    const float weight = average.WeightAt(*first_sample);
    d_mean[channel] = (add ? d_mean[channel] : 0) + weight * of.mean[channel];
    d_variance[channel] = (add ? d_variance[channel] : 0) + weight * average.unbiased * of.variance[channel];
    if (channel == 0) *d_weight = (add ? *d_weight : 0) + weight;
  }
};

/// The gradient is computed from y, which is the normalised input: it works in place.
template <typename T>
class BatchNormOp final : public Op {
 public:
  BatchNormOp(const GpuContext& context, const BatchNormDesc& desc, const TensorDesc& in)
      : context_(context), desc_(desc), shape_(in) {
    outputs_ = {in};
    saved_bytes_ = 3 * shape_.channels * sizeof(float);
    scratch_bytes_ = MeansBytes() + ChannelValues(shape_) * sizeof(typename MomentsOf<T>::Value);
  }

  void Forward(const OpArgs& args) override {
    const GpuStream& stream = context_.stream();
    const SavedMoments saved = Saved(args);
    const T* const x = DataAs<T>(args.in[0]);
    if (OfRows(args)) {
      ReduceChannels(stream, shape_, MomentsOf<T>{x}, Results<typename MomentsOf<T>::Value>(args),
                     SaveMoments<T>{desc_.eps, saved});
    } else {
      ForEach(stream, shape_.channels,
              TakeMoments{desc_.eps, args.params[0].data, args.params[1].data, args.params[2].data, saved});
    }
    ForEachWithChannel(stream, shape_, Normalize<T>{saved, x, DataAs<T>(args.out[0])});
  }

  void BackwardInput(const OpArgs& args) override {
    T* const dx = DataAs<T>(args.d_in[0]);
    if (dx == nullptr) return;
    const T *const y = DataAs<T>(args.out[0]), *const dy = DataAs<T>(args.d_out[0]);
    float *a = nullptr, *b = nullptr;
    if (OfRows(args)) {
      a = reinterpret_cast<float*>(args.scratch), b = a + shape_.channels;
      const float each = 1 / static_cast<float>(shape_.rows * shape_.pixels);
      ReduceChannels(context_.stream(), shape_, GradientSums<T>{y, dy}, Results<typename GradientSums<T>::Value>(args),
                     SaveMeans<T>{each, a, b});
    }
    ForEachWithChannel(context_.stream(), shape_, Gradient<T>{Saved(args).factor, a, b, y, dy, dx});
  }

  void BackwardParams(const OpArgs& args) override {
    ForEach(context_.stream(), shape_.channels,
            AverageGradient{BatchAverage::Make(desc_, shape_.rows, shape_.pixels, *args.batch), Saved(args),
                            args.batch->first_sample_on_device, args.accumulate, args.d_params[0], args.d_params[1],
                            args.d_params[2]});
  }
  bool backward_reads_input() const override { return false; }

 private:
  size_t MeansBytes() const { return (2 * shape_.channels * sizeof(float) + 63) / 64 * 64; }
  SavedMoments Saved(const OpArgs& args) const {
    float* const saved = reinterpret_cast<float*>(args.saved);
    return {saved, saved + shape_.channels, saved + 2 * shape_.channels};
  }
  template <typename Value>
  Value* Results(const OpArgs& args) const {
    return reinterpret_cast<Value*>(args.scratch + MeansBytes());
  }
  bool OfRows(const OpArgs& args) const { return args.batch->train && !desc_.global; }

  const GpuContext context_;
  const BatchNormDesc desc_;
  const Channels shape_;
};

Status NoMoments() { return InternalError("moments apart from what is normalised: has_moments is false"); }

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::BatchNorm(const BatchNormDesc& desc, const Descs& in) {
  return WithElementType(in[0].element, [&](auto type) -> Backend::OpPtr {
    return std::make_unique<BatchNormOp<typename decltype(type)::Type>>(context_, desc, in[0]);
  });
}

StatusOr<Backend::OpPtr> CudaBackend::Moments(const BatchNormDesc&, const Descs&) { return NoMoments(); }

StatusOr<Backend::OpPtr> CudaBackend::ScaledNorm(bool, const Descs&) { return NoMoments(); }

}  // namespace hp::cuda
