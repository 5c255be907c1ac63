#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/parallel.h"

namespace hp {
namespace {

// Loops in functions of their own: the closure of a parallel region would be read again after each store, because the
// store might have changed it, and the compiler would make scalar code with a branch for each element.

// "x < 0 ? ... : x" hands a NaN on.
void Rectify(const float* x, float slope, int64_t count, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] < 0 ? slope * x[i] : x[i];
}

void RectifyGradient(const float* y, const float* dy, float slope, int64_t count, float* dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) dx[i] = y[i] > 0 ? dy[i] : slope * dy[i];
}

/// y = x for x > 0, else slope * x. The gradient goes by the sign of y, which is x's: it works in place.
class ReluOp final : public Op {
 public:
  ReluOp(float slope, const TensorDesc& in) : slope_(slope) { outputs_ = {in}; }

  void Forward(const OpArgs& args) override {
    const float* x = args.in[0].floats();
    float* y = args.out[0].floats();
    const float slope = slope_;
    ForChunks(args.in[0].count(),
              [=](int64_t begin, int64_t end) { Rectify(x + begin, slope, end - begin, y + begin); });
  }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    const float *y = args.out[0].floats(), *dy = args.d_out[0].floats();
    float* dx = args.d_in[0].floats();
    const float slope = slope_;
    ForChunks(args.in[0].count(), [=](int64_t begin, int64_t end) {
      RectifyGradient(y + begin, dy + begin, slope, end - begin, dx + begin);
    });
  }
  bool backward_reads_input() const override { return false; }

 private:
  const float slope_;
};

/// Sigmoid and TanH by oneDNN, whose gradient is computed from y: it works in place. The elements are taken as one flat
/// array, so any layout will do.
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
  if (desc.kind == ActivationDesc::kRelu) return Backend::OpPtr(std::make_unique<ReluOp>(desc.negative_slope, in[0]));
  const dnnl::algorithm algorithm = desc.kind == ActivationDesc::kSigmoid
                                        ? dnnl::algorithm::eltwise_logistic_use_dst_for_bwd
                                        : dnnl::algorithm::eltwise_tanh_use_dst_for_bwd;
  Backend::OpPtr op;
  HP_RETURN_IF_ERROR(onednn::Guard("activation", [&] { op = std::make_unique<SmoothActivationOp>(algorithm, in[0]); }));
  return op;
}

}  // namespace hp
