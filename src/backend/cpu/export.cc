#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/reorder.h"

#include <algorithm>

namespace hp {
namespace {

/// A tensor that leaves the node: the wire's layout out, the sum of the readers' gradients back in the net's.
class ExportOp final : public Op {
 public:
  explicit ExportOp(const TensorDesc& in) : in_(in) { outputs_ = {{in.shape, 1}}; }

  void Forward(const OpArgs& args) override { CopyLayout(in_, args.in[0].floats(), outputs_[0], args.out[0].floats()); }
  /// args.d_out holds one gradient for each reader.
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    std::vector<const float*> parts;
    for (const Tensor& d_out : args.d_out) {
      if (d_out.data != nullptr) parts.push_back(d_out.floats());
    }
    if (parts.empty()) {
      std::fill_n(args.d_in[0].floats(), in_.count(), 0.0f);
    } else {
      SumFromDense(parts, in_, args.d_in[0].floats());
    }
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  const TensorDesc in_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Export(int, const Descs& in) {
  return Backend::OpPtr(std::make_unique<ExportOp>(in[0]));
}

}  // namespace hp
