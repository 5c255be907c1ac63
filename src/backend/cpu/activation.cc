#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/element.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/row_math.h"

#include <algorithm>
#include <type_traits>
#include <variant>

namespace hp {
namespace {

constexpr int64_t kVectorLanes = 16;  // a multiple of those of any vector

// Loops in functions of their own: the closure of a parallel region would be read again after each store, because the
// store might have changed it, and the compiler would make scalar code with a branch for each element. Not inlined, so
// that all counts, which are multiples of kVectorLanes, go through the same instructions.

template <typename Function>
__attribute__((noinline)) void ComputeValues(const Function function, const float* x, int64_t count, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = function.Value(x[i]);
}

template <typename Function>
__attribute__((noinline)) void ComputeGradients(const Function function, const float* seen, const float* dy,
                                                int64_t count, float* dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * function.Derivative(seen[i]);
}

/// Any number of elements, the last ones through a padded vector: a vector's exponential rounds otherwise than one of a
/// single element, and a slice of a tensor must have the bits of the whole.
template <typename Function>
void ForwardChunk(const Function& function, const float* x, int64_t count, float* y) {
  const int64_t whole = count / kVectorLanes * kVectorLanes;
  ComputeValues(function, x, whole, y);
  if (whole == count) return;
  float last[kVectorLanes] = {};
  std::copy(x + whole, x + count, last);
  ComputeValues(function, last, kVectorLanes, last);
  std::copy_n(last, count - whole, y + whole);
}

template <typename Function>
void BackwardChunk(const Function& function, const float* seen, const float* dy, int64_t count, float* dx) {
  const int64_t whole = count / kVectorLanes * kVectorLanes;
  ComputeGradients(function, seen, dy, whole, dx);
  if (whole == count) return;
  float last_seen[kVectorLanes] = {}, last[kVectorLanes] = {};
  std::copy(seen + whole, seen + count, last_seen);
  std::copy(dy + whole, dy + count, last);
  ComputeGradients(function, last_seen, last, kVectorLanes, last);
  std::copy_n(last, count - whole, dx + whole);
}

/// @tparam T float or BFloat16.
template <typename Function, typename T>
class ActivationOp final : public Op {
 public:
  ActivationOp(const Function& function, const TensorDesc& in) : function_(function) { outputs_ = {in}; }

  void Forward(const OpArgs& args) override {
    const T* const x = DataOf<const T>(args.in[0]);
    T* const y = DataOf<T>(args.out[0]);
    ForChunks(args.in[0].count(), [=, this](int64_t begin, int64_t end) {
      alignas(64) float buffer[kRunElements];
      ForRuns<T>(begin, end, y, [&](int64_t first, int64_t count, float* values) {
        ForwardChunk(function_, FloatsAt(x, first, count, buffer), count, values);
      });
    });
  }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    const T* const dy = DataOf<const T>(args.d_out[0]);
    T* const dx = DataOf<T>(args.d_in[0]);
    // Where nothing is needed, what is read does not matter; it has to be there.
    const T* seen = dy;
    if (backward_reads_input()) seen = DataOf<const T>(args.in[0]);
    if (backward_reads_output()) seen = DataOf<const T>(args.out[0]);
    ForChunks(args.in[0].count(), [=, this](int64_t begin, int64_t end) {
      alignas(64) float seen_buffer[kRunElements], dy_buffer[kRunElements];
      ForRuns<T>(begin, end, dx, [&](int64_t first, int64_t count, float* values) {
        BackwardChunk(function_, FloatsAt(seen, first, count, seen_buffer), FloatsAt(dy, first, count, dy_buffer),
                      count, values);
      });
    });
  }
  bool is_plain_relu() const override {
    if constexpr (std::is_same_v<Function, activation::Relu<activation::From::kOutput>>) return function_.slope == 0;
    return false;
  }
  bool backward_reads_input() const override { return Function::kFrom == activation::From::kInput; }
  bool backward_reads_output() const override { return Function::kFrom == activation::From::kOutput; }

 private:
  const Function function_;
};

/// Sigmoid and TanH by oneDNN, which has vectors of tanh as well; the gradient is computed from y. The elements are
/// taken as one flat array, so any layout will do.
class SmoothActivationOp final : public Op {
 public:
  /// Throws dnnl::error.
  SmoothActivationOp(dnnl::algorithm algorithm, const TensorDesc& in)
      : flat_({in.count()}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a) {
    outputs_ = {in};
    const dnnl::eltwise_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, algorithm, flat_, 0.0f, 0.0f}, context_.engine);
    const dnnl::eltwise_backward::primitive_desc backward({algorithm, flat_, flat_, 0.0f, 0.0f}, context_.engine,
                                                          forward);
    forward_ = dnnl::eltwise_forward(forward);
    backward_ = dnnl::eltwise_backward(backward);
  }

  void Forward(const OpArgs& args) override {
    context_.Execute(forward_, {{DNNL_ARG_SRC, context_.Memory(flat_, args.in[0].floats())},
                                {DNNL_ARG_DST, context_.Memory(flat_, args.out[0].floats())}});
  }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    context_.Execute(backward_, {{DNNL_ARG_DST, context_.Memory(flat_, args.out[0].floats())},
                                 {DNNL_ARG_DIFF_DST, context_.Memory(flat_, args.d_out[0].floats())},
                                 {DNNL_ARG_DIFF_SRC, context_.Memory(flat_, args.d_in[0].floats())}});
  }
  bool backward_reads_input() const override { return false; }

 private:
  onednn::Context context_;
  const dnnl::memory::desc flat_;
  dnnl::eltwise_forward forward_;
  dnnl::eltwise_backward backward_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Activation(const ActivationDesc& desc, const Descs& in) {
  const auto smooth = [&](dnnl::algorithm algorithm) -> StatusOr<OpPtr> {
    return OnFloat32(in, [&](const Descs& floats) -> StatusOr<OpPtr> {
      OpPtr op;
      HP_RETURN_IF_ERROR(
          onednn::Guard("activation", [&] { op = std::make_unique<SmoothActivationOp>(algorithm, floats[0]); }));
      return op;
    });
  };
  return std::visit(
      [&](const auto& function) -> StatusOr<OpPtr> {
        using Function = std::decay_t<decltype(function)>;
        if constexpr (std::is_same_v<Function, activation::Sigmoid>) {
          return smooth(dnnl::algorithm::eltwise_logistic_use_dst_for_bwd);
        } else if constexpr (std::is_same_v<Function, activation::Tanh>) {
          return smooth(dnnl::algorithm::eltwise_tanh_use_dst_for_bwd);
        } else {
          return OfElement(in[0].element, [&](auto tag) {
            return OpPtr(std::make_unique<ActivationOp<Function, typename decltype(tag)::Type>>(function, in[0]));
          });
        }
      },
      desc);
}

}  // namespace hp
