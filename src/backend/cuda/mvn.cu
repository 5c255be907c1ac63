#include "backend/cuda/channel_sums.h"
#include "backend/cuda/channels.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/element.h"

#include <math.h>

namespace hp::cuda {
namespace {

/// [rows][channels] each: the mean, 1 / (deviation + eps), and (deviation + eps) / deviation.
struct SavedDeviations {
  float *mean, *factor, *ratio;
};

template <typename T>
struct PutDeviation {
  MvnDesc desc;
  SavedDeviations to;
  HP_HOST_DEVICE void operator()(int64_t item, const typename MomentsOf<T>::Value& value) const {
    const float deviation = sqrtf(value.squares / value.count), divisor = deviation + desc.eps;
    to.mean[item] = value.mean;
    to.factor[item] = desc.normalize_variance ? 1 / divisor : 1;
    to.ratio[item] = !desc.normalize_variance || deviation == 0 ? 0 : divisor / deviation;
  }
};

/// The mean of dy, and that of dy y times the ratio.
template <typename T>
struct PutMeans {
  float each;
  const float* ratio;
  float *a, *b;
  HP_HOST_DEVICE void operator()(int64_t item, const typename GradientSums<T>::Value& value) const {
    a[item] = value.sum * each;
    b[item] = value.product * each * ratio[item];
  }
};

template <typename T>
struct NormalizeRow {
  SavedDeviations of;
  const T* x;
  T* y;
  HP_HOST_DEVICE void operator()(int64_t at, int64_t item) const {
    Put((ToFloat(x[at]) - of.mean[item]) * of.factor[item], y + at);
  }
};

/// dx = (dy - a - y b) * factor.
template <typename T>
struct RowGradient {
  const float *factor, *a, *b;
  const T *y, *dy;
  T* dx;
  HP_HOST_DEVICE void operator()(int64_t at, int64_t item) const {
    Put((ToFloat(dy[at]) - a[item] - ToFloat(y[at]) * b[item]) * factor[item], dx + at);
  }
};

/// In any layout: each row's channels, or whole rows, which are one channel then. The gradient is computed from y: it
/// works in place.
template <typename T>
class MvnOp final : public Op {
 public:
  MvnOp(const GpuContext& context, const MvnDesc& desc, const TensorDesc& in)
      : context_(context),
        desc_(desc),
        shape_(desc.across_channels ? Channels(in.shape[0], 1, in.shape.count(1)) : Channels(in)),
        numbers_(shape_.rows * shape_.channels) {
    outputs_ = {in};
    saved_bytes_ = 3 * numbers_ * sizeof(float);
    scratch_bytes_ = MeansBytes() + EachChannelValues(shape_) * sizeof(typename MomentsOf<T>::Value);
  }

  void Forward(const OpArgs& args) override {
    const T* const x = DataAs<T>(args.in[0]);
    ReduceEachChannel(context_.stream(), shape_, MomentsOf<T>{x}, Values<typename MomentsOf<T>::Value>(args),
                      PutDeviation<T>{desc_, Saved(args)});
    ForEachWithItem(context_.stream(), shape_, NormalizeRow<T>{Saved(args), x, DataAs<T>(args.out[0])});
  }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    const T *const y = DataAs<T>(args.out[0]), *const dy = DataAs<T>(args.d_out[0]);
    float *const a = reinterpret_cast<float*>(args.scratch), *const b = a + numbers_;
    const float each = 1 / static_cast<float>(shape_.pixels);
    const SavedDeviations saved = Saved(args);
    ReduceEachChannel(context_.stream(), shape_, GradientSums<T>{y, dy}, Values<typename GradientSums<T>::Value>(args),
                      PutMeans<T>{each, saved.ratio, a, b});
    ForEachWithItem(context_.stream(), shape_, RowGradient<T>{saved.factor, a, b, y, dy, DataAs<T>(args.d_in[0])});
  }
  bool backward_reads_input() const override { return false; }

 private:
  size_t MeansBytes() const { return (2 * numbers_ * sizeof(float) + 63) / 64 * 64; }
  template <typename Value>
  Value* Values(const OpArgs& args) const {
    return reinterpret_cast<Value*>(args.scratch + MeansBytes());
  }
  SavedDeviations Saved(const OpArgs& args) const {
    float* const saved = reinterpret_cast<float*>(args.saved);
    return {saved, saved + numbers_, saved + 2 * numbers_};
  }

  const GpuContext context_;
  const MvnDesc desc_;
  const Channels shape_;
  const int64_t numbers_;
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Mvn(const MvnDesc& desc, const Descs& in) {
  return WithElementType(in[0].element, [&](auto type) -> Backend::OpPtr {
    return std::make_unique<MvnOp<typename decltype(type)::Type>>(context_, desc, in[0]);
  });
}

}  // namespace hp::cuda
