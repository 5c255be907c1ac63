#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/reorder.h"

namespace hp::cuda {
namespace {

/// One tensor under several names. Where the memory plan gave the outputs the input's memory, Forward has nothing to
/// do.
class SplitOp final : public Op {
 public:
  SplitOp(const GpuContext& context, int ways, const TensorDesc& in) : context_(context) { outputs_.assign(ways, in); }

  void Forward(const OpArgs& args) override {
    for (const Tensor& out : args.out) {
      if (out.data != nullptr) CopyLayout(context_.stream(), out.desc, args.in[0].data, out.desc, out.data);
    }
  }
  /// A reader that sends no gradient back (an Accuracy) has a null pointer in d_out.
  void BackwardInput(const OpArgs& args) override {
    const Tensor& d_in = args.d_in[0];
    if (d_in.data != nullptr) Sum(context_.stream(), d_in.desc, WantedData(args.d_out), d_in.data);
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  const GpuContext context_;
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Split(int ways, const Descs& in) {
  return Backend::OpPtr(std::make_unique<SplitOp>(context_, ways, in[0]));
}

}  // namespace hp::cuda
