#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/element.h"

#include <type_traits>
#include <variant>

namespace hp::cuda {
namespace {

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

/// `seen` is x or y, whichever the derivative is computed from.
template <typename Function, typename T>
struct ActivationBackward {
  Function function;
  const T *seen, *dy;
  T* dx;
  template <int W>
  HP_HOST_DEVICE void Run(int64_t i) const {
    Pack<float, W> gradient = ReadPack<W>(dy + i), value = gradient;
    if constexpr (Function::kFrom != activation::From::kNothing) value = ReadPack<W>(seen + i);
    for (int w = 0; w < W; ++w) gradient.of[w] *= function.Derivative(value.of[w]);
    WritePack(dx + i, gradient);
  }
};

/// Element by element in any layout.
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
    const T* seen = DataAs<T>(backward_reads_input() ? args.in[0] : args.out[0]);
    const T* dy = DataAs<T>(args.d_out[0]);
    T* dx = DataAs<T>(args.d_in[0]);
    if (dx == nullptr) return;
    ForEachPack<kPackWidth<T>>(context_.stream(), args.in[0].count(), Packable({seen, dy, dx}),
                               ActivationBackward<Function, T>{function_, seen, dy, dx});
  }
  bool is_plain_relu() const override {
    if constexpr (std::is_same_v<Function, activation::Relu<activation::From::kOutput>>) return function_.slope == 0;
    return false;
  }
  bool backward_reads_input() const override { return Function::kFrom == activation::From::kInput; }
  bool backward_reads_output() const override { return Function::kFrom == activation::From::kOutput; }

 private:
  const GpuContext context_;
  const Function function_;
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Activation(const ActivationDesc& desc, const Descs& in) {
  return std::visit(
      [&](const auto& function) {
        using Function = std::decay_t<decltype(function)>;
        return WithElementType(in[0].element, [&](auto type) -> OpPtr {
          return std::make_unique<ActivationOp<Function, typename decltype(type)::Type>>(context_, function, in[0]);
        });
      },
      desc);
}

}  // namespace hp::cuda
