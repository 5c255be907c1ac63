#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/float32_inputs.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/softmax_rows.h"
#include "backend/layout.h"

namespace hp::cuda {
namespace {

/// dx = y * (dy - sum of dy * y). Reads y and dy twice, writes dx; dy and dx may be the same memory.
struct SoftmaxBackward {
  using Value = double;
  const float *y, *dy;
  float* dx;
  SoftmaxColumns at;

  HP_HOST_DEVICE Value Identity() const { return 0; }
  HP_HOST_DEVICE Value Map(int64_t row, int64_t i) const { return static_cast<double>(dy[at(row, i)]) * y[at(row, i)]; }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return a + b; }
  HP_HOST_DEVICE void Finish(int64_t, const Value&) const {}
  HP_HOST_DEVICE void Each(int64_t row, int64_t i, const Value& dot) const {
    dx[at(row, i)] = y[at(row, i)] * (dy[at(row, i)] - static_cast<float>(dot));
  }
};

/// Softmax along any axis, in the input's own layout.
class SoftmaxOp final : public Op {
 public:
  SoftmaxOp(const GpuContext& context, int axis, const TensorDesc& in) : context_(context) {
    outputs_ = {in};
    const Shape& shape = in.shape;
    at_.classes = shape[axis];
    at_.inner = shape.count(axis + 1);
    if (EffectiveBlock(in) != 1)
      at_.inner = axis == 1 ? 1 : shape.count(axis + 1) * shape[1];  // [N, H, W, C] in memory
    rows_ = in.count() / at_.classes;
    scratch_bytes_ = SoftmaxRowsScratch(rows_, at_);
  }

  void Forward(const OpArgs& args) override {
    ReduceSoftmaxRows(context_.stream(), rows_, SoftmaxForward{{}, {args.in[0].floats()}, args.out[0].floats(), at_},
                      at_, args.scratch);
  }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    ReduceSoftmaxRows(context_.stream(), rows_,
                      SoftmaxBackward{args.out[0].floats(), args.d_out[0].floats(), args.d_in[0].floats(), at_}, at_,
                      args.scratch);
  }
  bool backward_reads_input() const override { return false; }

 private:
  const GpuContext context_;
  SoftmaxColumns at_ = {};
  int64_t rows_ = 0;
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Softmax(int axis, const Descs& in) {
  return OnFloat32(context_, in, [&](const Descs& float32) {
    return StatusOr<OpPtr>(std::make_unique<SoftmaxOp>(context_, axis, float32[0]));
  });
}

}  // namespace hp::cuda
