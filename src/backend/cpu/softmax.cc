#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/reorder.h"
#include "backend/cpu/softmax_math.h"

namespace hp {
namespace {

/// Softmax along any axis. The output is dense; an input in another layout is brought into it first, in place of the
/// output, or in scratch where input and output are the same memory.
class SoftmaxOp final : public Op {
 public:
  SoftmaxOp(int axis, const TensorDesc& in)
      : in_(in),
        dense_{in.shape, 1},
        outer_(in.shape.count(0, axis)),
        classes_(in.shape[axis]),
        inner_(in.shape.count(axis + 1)) {
    outputs_ = {dense_};
    if (!SameOrder(in_, dense_)) scratch_bytes_ = dense_.bytes();
  }

  void Forward(const OpArgs& args) override {
    const float* x = args.in[0].floats();
    float* y = args.out[0].floats();
    if (!SameOrder(in_, dense_)) {
      float* const dense = x == y ? reinterpret_cast<float*>(args.scratch) : y;
      CopyLayout(in_, x, dense_, dense);
      x = dense;
    }
    ComputeSoftmax(x, outer_, classes_, inner_, y);
  }
  void BackwardInput(const OpArgs& args) override {
    float* dx = args.d_in[0].floats();
    if (dx == nullptr) return;
    float* dense = SameOrder(in_, dense_) ? dx : reinterpret_cast<float*>(args.scratch);
    ComputeSoftmaxGradient(args.out[0].floats(), args.d_out[0].floats(), outer_, classes_, inner_, dense);
    if (dense != dx) CopyLayout(dense_, dense, in_, dx);
  }
  bool backward_reads_input() const override { return false; }

 private:
  const TensorDesc in_, dense_;
  const int64_t outer_, classes_, inner_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Softmax(int axis, const Descs& in) {
  return OnFloat32(
      in, [&](const Descs& floats) -> StatusOr<OpPtr> { return OpPtr(std::make_unique<SoftmaxOp>(axis, floats[0])); });
}

}  // namespace hp
