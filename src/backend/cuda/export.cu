#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/reorder.h"

namespace hp::cuda {
namespace {

/// A tensor that leaves the node: the wire's layout out, the sum of the readers' gradients back in the net's.
class ExportOp final : public Op {
 public:
  ExportOp(const GpuContext& context, const TensorDesc& in) : context_(context), in_(in) { outputs_ = {{in.shape, 1}}; }

  void Forward(const OpArgs& args) override {
    CopyLayout(context_.stream(), in_, args.in[0].data, outputs_[0], args.out[0].data);
  }
  /// args.d_out holds one gradient for each reader.
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data != nullptr) {
      SumFromDense(context_.stream(), WantedData(args.d_out), in_, args.d_in[0].data);
    }
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  const GpuContext context_;
  const TensorDesc in_;
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Export(int, const Descs& in) {
  return Backend::OpPtr(std::make_unique<ExportOp>(context_, in[0]));
}

}  // namespace hp::cuda
