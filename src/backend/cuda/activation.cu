#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/element.h"

#include <cmath>

namespace hp::cuda {
namespace {

// NaN compares false with everything and must come out as it went in.
struct Relu {
  float slope;
  HP_HOST_DEVICE float Value(float x) const { return x < 0 ? slope * x : x; }
  HP_HOST_DEVICE float Slope(float y) const { return y > 0 ? 1 : slope; }
};

struct Sigmoid {
  HP_HOST_DEVICE float Value(float x) const { return 1 / (1 + expf(-x)); }
  HP_HOST_DEVICE float Slope(float y) const { return y * (1 - y); }
};

struct Tanh {
  HP_HOST_DEVICE float Value(float x) const { return tanhf(x); }
  HP_HOST_DEVICE float Slope(float y) const { return 1 - y * y; }
};

template <typename Function, typename T>
struct ActivationForward {
  Function function;
  const T* x;
  T* y;
  template <int W>
  HP_HOST_DEVICE void Run(int64_t i) const {
    Pack<float, W> value = ReadPack<W>(x + i);
    for (int w = 0; w < W; ++w) value.of[w] = function.Value(value.of[w]);
    WritePack(y + i, value);
  }
};

template <typename Function, typename T>
struct ActivationBackward {
  Function function;
  const T *y, *dy;
  T* dx;
  template <int W>
  HP_HOST_DEVICE void Run(int64_t i) const {
    const Pack<float, W> value = ReadPack<W>(y + i);
    Pack<float, W> gradient = ReadPack<W>(dy + i);
    for (int w = 0; w < W; ++w) gradient.of[w] *= function.Slope(value.of[w]);
    WritePack(dx + i, gradient);
  }
};

/// Element by element in any layout; the gradient comes from the output, so that it may work in place.
template <typename Function, typename T>
class ActivationOp final : public Op {
 public:
  ActivationOp(const GpuContext& context, const Function& function, const TensorDesc& in)
      : context_(context), function_(function) {
    outputs_ = {in};
  }

  void Forward(const OpArgs& args) override {
    const T* x = DataAs<T>(args.in[0]);
    T* y = DataAs<T>(args.out[0]);
    ForEachPack<kPackWidth<T>>(context_.stream(), args.in[0].count(), Packable({x, y}),
                               ActivationForward<Function, T>{function_, x, y});
  }
  void BackwardInput(const OpArgs& args) override {
    const T *y = DataAs<T>(args.out[0]), *dy = DataAs<T>(args.d_out[0]);
    T* dx = DataAs<T>(args.d_in[0]);
    if (dx == nullptr) return;
    ForEachPack<kPackWidth<T>>(context_.stream(), args.in[0].count(), Packable({y, dy, dx}),
                               ActivationBackward<Function, T>{function_, y, dy, dx});
  }
  bool backward_reads_input() const override { return false; }

 private:
  const GpuContext context_;
  const Function function_;
};

template <typename Function>
Backend::OpPtr Make(const GpuContext& context, const Function& function, const TensorDesc& in) {
  return WithElementType(in.element, [&](auto type) -> Backend::OpPtr {
    return std::make_unique<ActivationOp<Function, typename decltype(type)::Type>>(context, function, in);
  });
}

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Activation(const ActivationDesc& desc, const Descs& in) {
  switch (desc.kind) {
    case ActivationDesc::kRelu:
      return Make(context_, Relu{desc.negative_slope}, in[0]);
    case ActivationDesc::kSigmoid:
      return Make(context_, Sigmoid{}, in[0]);
    case ActivationDesc::kTanh:
      break;
  }
  return Make(context_, Tanh{}, in[0]);
}

}  // namespace hp::cuda
