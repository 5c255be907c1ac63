#include "backend/cuda/launch.h"
#include "backend/cuda/ops.h"

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

template <typename Function>
struct ActivationForward {
  Function function;
  const float* x;
  float* y;
  HP_HOST_DEVICE void operator()(int64_t i) const { y[i] = function.Value(x[i]); }
};

template <typename Function>
struct ActivationBackward {
  Function function;
  const float *y, *dy;
  float* dx;
  HP_HOST_DEVICE void operator()(int64_t i) const { dx[i] = dy[i] * function.Slope(y[i]); }
};

/// Element by element in any layout; the gradient comes from the output, so that it may work in place.
template <typename Function>
class ActivationOp final : public Op {
 public:
  ActivationOp(const GpuContext& context, const Function& function, const TensorDesc& in)
      : context_(context), function_(function) {
    outputs_ = {in};
  }

  void Forward(const OpArgs& args) override {
    ForEach(context_.stream(), args.in[0].count(),
            ActivationForward<Function>{function_, args.in[0].data, args.out[0].data});
  }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    ForEach(context_.stream(), args.in[0].count(),
            ActivationBackward<Function>{function_, args.out[0].data, args.d_out[0].data, args.d_in[0].data});
  }
  bool backward_reads_input() const override { return false; }

 private:
  const GpuContext context_;
  const Function function_;
};

template <typename Function>
Backend::OpPtr Make(const GpuContext& context, const Function& function, const TensorDesc& in) {
  return std::make_unique<ActivationOp<Function>>(context, function, in);
}

}  // namespace

StatusOr<Backend::OpPtr> MakeActivation(const GpuContext& context, const ActivationDesc& desc,
                                        const Backend::Descs& in) {
  switch (desc.kind) {
    case ActivationDesc::kRelu:
      return Make(context, Relu{desc.negative_slope}, in[0]);
    case ActivationDesc::kSigmoid:
      return Make(context, Sigmoid{}, in[0]);
    case ActivationDesc::kTanh:
      break;
  }
  return Make(context, Tanh{}, in[0]);
}

}  // namespace hp::cuda
