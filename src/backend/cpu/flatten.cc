#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/reorder.h"

namespace hp {
namespace {

/// The input in dense NCHW order under another shape.
class FlattenOp final : public Op {
 public:
  FlattenOp(const Shape& out, const TensorDesc& in) : in_(in), dense_{in.shape, 1, in.element} {
    outputs_ = {{out, 1, in.element}};
  }

  void Forward(const OpArgs& args) override { CopyLayout(in_, args.in[0].data, dense_, args.out[0].data); }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data != nullptr) CopyLayout(dense_, args.d_out[0].data, in_, args.d_in[0].data);
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  const TensorDesc in_, dense_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Flatten(const Shape& out, const Descs& in) {
  return Backend::OpPtr(std::make_unique<FlattenOp>(out, in[0]));
}

}  // namespace hp
