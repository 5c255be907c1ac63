#include "backend/cuda/channel_sums.h"
#include "backend/cuda/channels.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/element.h"
#include "backend/cuda/float32_inputs.h"

#include <type_traits>
#include <variant>

namespace hp::cuda {
namespace {

/// y = f(x, factor) + bias; `bias` null: 0. @tparam F of the factors: float where they are a parameter.
template <typename Function, typename T, typename F>
struct Apply {
  Function function;
  const F* factors;
  const float* bias;
  const T* x;
  T* y;
  HP_HOST_DEVICE void operator()(int64_t at, uint32_t channel) const {
    const float value = function.Value(ToFloat(x[at]), ToFloat(factors[channel]));
    Put(bias == nullptr ? value : value + bias[channel], y + at);
  }
};

/// dx, from x where the function bends.
template <typename Function, typename T, typename F>
struct ApplyGradient {
  Function function;
  const F* factors;
  const T *x, *dy;
  T* dx;
  HP_HOST_DEVICE void operator()(int64_t at, uint32_t channel) const {
    float value = 0;
    if constexpr (Function::kBends) value = ToFloat(x[at]);
    Put(function.InputGradient(value, ToFloat(factors[channel]), ToFloat(dy[at])), dx + at);
  }
};

/// @tparam F as above. `d_bias` null: not wanted.
template <typename Sums, typename F>
struct PutFactorSums {
  bool add;
  F* d_factors;
  float* d_bias;
  HP_HOST_DEVICE void operator()(int64_t channel, const typename Sums::Value& value) const {
    Put((add ? ToFloat(d_factors[channel]) : 0) + value.product, d_factors + channel);
    if (d_bias != nullptr) d_bias[channel] = (add ? d_bias[channel] : 0) + value.sum;
  }
};

/// What channels are elsewhere are the factors here.
Channels ShapeOf(const BroadcastDesc& desc, const TensorDesc& in) {
  if (desc.axis_begin == 1 && desc.axis_end == 2) return Channels(in);
  const int64_t factors = desc.axis_begin == desc.axis_end ? 1 : in.shape.count(desc.axis_begin, desc.axis_end);
  const int64_t rows = desc.axis_begin == 0 ? 1 : in.shape.count(0, desc.axis_begin);
  const int64_t pixels = desc.axis_end == in.shape.rank() ? 1 : in.shape.count(desc.axis_end);
  return {rows, factors, pixels};
}

/// In x's layout where the factors are those of its channels, or one; else both inputs are taken dense.
template <typename Function, typename T>
class BroadcastOp final : public Op {
  using Sums = GradientSums<T, Function>;

 public:
  BroadcastOp(const GpuContext& context, const Function& function, const BroadcastDesc& desc, const Backend::Descs& in)
      : context_(context),
        function_(function),
        desc_(desc),
        in_(in),
        learned_(in.size() == 1),
        any_layout_((desc.axis_begin == 1 && desc.axis_end == 2) || (learned_ && desc.axis_begin == desc.axis_end)),
        shape_(ShapeOf(desc, in[0])) {
    outputs_ = {in[0]};
    if (!any_layout_) outputs_[0].channel_block = 1;
    factors_at_ = Foreign(0) ? Aligned(in[0].bytes()) : 0;
    results_at_ = factors_at_ + (learned_ ? 0 : Aligned(in[1].bytes()));
    scratch_bytes_ = results_at_ + ChannelValues(shape_) * sizeof(typename Sums::Value);
  }

  void Forward(const OpArgs& args) override {
    const float* const bias = desc_.bias ? args.params[1].data : nullptr;
    const T* const x = DenseInput(args);
    T* const y = DataAs<T>(args.out[0]);
    WithFactors(args, [&](auto* factors) {
      using F = std::decay_t<decltype(*factors)>;
      ForEachWithChannel(context_.stream(), shape_, Apply<Function, T, F>{function_, factors, bias, x, y});
    });
  }

  void BackwardInput(const OpArgs& args) override {
    if (!learned_ && args.d_in[1].data != nullptr) FactorsGradient(args);
    if (args.d_in[0].data == nullptr) return;
    const T *const dy = DataAs<T>(args.d_out[0]), *const x = Function::kBends ? DenseInput(args) : nullptr;
    T* const dx = Foreign(0) ? reinterpret_cast<T*>(args.scratch) : DataAs<T>(args.d_in[0]);
    WithFactors(args, [&](auto* factors) {
      using F = std::decay_t<decltype(*factors)>;
      ForEachWithChannel(context_.stream(), shape_, ApplyGradient<Function, T, F>{function_, factors, x, dy, dx});
    });
    if (Foreign(0)) CopyLayout(context_.stream(), outputs_[0], dx, in_[0], args.d_in[0].data);
  }

  void BackwardParams(const OpArgs& args) override {
    if (!learned_) return;
    SumRows<float>(args, args.accumulate, args.d_params[0], desc_.bias ? args.d_params[1] : nullptr);
  }
  bool backward_reads_input() const override { return Function::kBends || Function::kWeighs; }
  bool backward_reads_output() const override { return false; }

 private:
  static size_t Aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }
  bool Foreign(int input) const {
    return !any_layout_ && !SameOrder(in_[input], {in_[input].shape, 1, in_[input].element});
  }

  const T* DenseInput(const OpArgs& args) const {
    if (!Foreign(0)) return DataAs<T>(args.in[0]);
    CopyLayout(context_.stream(), in_[0], args.in[0].data, outputs_[0], args.scratch);
    return reinterpret_cast<const T*>(args.scratch);
  }

  /// Calls use(the dense factors, of their type).
  template <typename Use>
  void WithFactors(const OpArgs& args, const Use& use) const {
    if (learned_) return use(args.params[0].data);
    const T* factors = DataAs<T>(args.in[1]);
    if (Foreign(1)) {
      factors = reinterpret_cast<const T*>(args.scratch + factors_at_);
      CopyLayout(context_.stream(), in_[1], args.in[1].data, DenseFactors(), args.scratch + factors_at_);
    }
    use(factors);
  }

  TensorDesc DenseFactors() const { return {in_[1].shape, 1, in_[1].element}; }

  void FactorsGradient(const OpArgs& args) const {
    if (!Foreign(1)) return SumRows<T>(args, false, DataAs<T>(args.d_in[1]), nullptr);
    std::byte* const dense = args.scratch + factors_at_;
    SumRows<T>(args, false, reinterpret_cast<T*>(dense), nullptr);
    CopyLayout(context_.stream(), DenseFactors(), dense, in_[1], args.d_in[1].data);
  }

  /// The gradients of factors and bias. @param d_bias null: not wanted.
  template <typename F>
  void SumRows(const OpArgs& args, bool add, F* d_factors, float* d_bias) const {
    auto* const results = reinterpret_cast<typename Sums::Value*>(args.scratch + results_at_);
    const T* const x = Function::kWeighs ? DenseInput(args) : nullptr;
    ReduceChannels(context_.stream(), shape_, Sums{x, DataAs<T>(args.d_out[0]), function_}, results,
                   PutFactorSums<Sums, F>{add, d_factors, d_bias});
  }

  const GpuContext context_;
  const Function function_;
  const BroadcastDesc desc_;
  const Backend::Descs in_;
  const bool learned_, any_layout_;
  const Channels shape_;
  size_t factors_at_ = 0, results_at_ = 0;  // in scratch
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Broadcast(const BroadcastDesc& desc, const Descs& in) {
  if (in.size() > 1 && in[1].element != in[0].element) {
    return OnFloat32(context_, in, [&](const auto& float32) { return Broadcast(desc, float32); });
  }
  return std::visit(
      [&](const auto& function) {
        using Function = std::decay_t<decltype(function)>;
        return WithElementType(in[0].element, [&](auto type) -> Backend::OpPtr {
          return std::make_unique<BroadcastOp<Function, typename decltype(type)::Type>>(context_, function, desc, in);
        });
      },
      desc.function);
}

}  // namespace hp::cuda
