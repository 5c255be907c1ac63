// What stands where a tensor crosses to other nodes: in float32, or rounded to bfloat16.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/reorder.h"
#include "backend/cuda/scratch.h"

#include <vector>

namespace hp::cuda {
namespace {

/// A tensor that leaves the node: the wire's layout out, the sum of the readers' gradients back in the net's.
class ExportOp final : public Op {
 public:
  ExportOp(const GpuContext& context, int parts, ElementType element, const TensorDesc& in)
      : context_(context), in_(in), wide_{in.shape, 1} {
    outputs_ = {{in.shape, 1, element}};
    if (!Narrow() || parts < 2) return;
    ScratchPlan plan;
    for (int i = 0; i < parts; ++i) places_.push_back(plan.Add(wide_.bytes()));
    scratch_bytes_ = plan.bytes();
  }

  void Forward(const OpArgs& args) override {
    CopyLayout(context_.stream(), in_, args.in[0].data, outputs_[0], args.out[0].data);
  }
  /// args.d_out holds one gradient for each reader.
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    std::vector<const void*> parts = WantedData(args.d_out);
    if (Narrow() && parts.size() == 1) {
      return CopyLayout(context_.stream(), outputs_[0], parts[0], in_, args.d_in[0].data);
    }
    for (size_t i = 0; Narrow() && i < parts.size(); ++i) {
      std::byte* const wide = args.scratch + places_[i];
      CopyLayout(context_.stream(), outputs_[0], parts[i], wide_, wide);
      parts[i] = wide;
    }
    SumFromDense(context_.stream(), parts, in_, args.d_in[0].data);
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  bool Narrow() const { return outputs_[0].element != ElementType::kFloat32; }

  const GpuContext context_;
  const TensorDesc in_, wide_;
  std::vector<size_t> places_;  // in scratch: the readers' gradients in float32
};

/// A tensor that lands in bfloat16.
class ImportOp final : public Op {
 public:
  ImportOp(const GpuContext& context, const TensorDesc& in) : context_(context), in_(in) { outputs_ = {{in.shape, 1}}; }

  void Forward(const OpArgs& args) override {
    CopyLayout(context_.stream(), in_, args.in[0].data, outputs_[0], args.out[0].data);
  }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    CopyLayout(context_.stream(), outputs_[0], args.d_out[0].data, in_, args.d_in[0].data);
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  const GpuContext context_;
  const TensorDesc in_;
};

/// Rounds a tensor for readers on its own node as the wire rounds it for others.
class RoundOp final : public Op {
 public:
  RoundOp(const GpuContext& context, ElementType element, const TensorDesc& in)
      : context_(context), rounded_{in.shape, in.channel_block, element} {
    outputs_ = {in};
    scratch_bytes_ = rounded_.bytes();
  }

  void Forward(const OpArgs& args) override {
    CopyLayout(context_.stream(), outputs_[0], args.in[0].data, rounded_, args.scratch);
    CopyLayout(context_.stream(), rounded_, args.scratch, outputs_[0], args.out[0].data);
  }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr || args.d_in[0].data == args.d_out[0].data) return;
    CopyLayout(context_.stream(), outputs_[0], args.d_out[0].data, outputs_[0], args.d_in[0].data);
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  const GpuContext context_;
  const TensorDesc rounded_;
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Export(int parts, ElementType element, const Descs& in) {
  return Backend::OpPtr(std::make_unique<ExportOp>(context_, parts, element, in[0]));
}

StatusOr<Backend::OpPtr> CudaBackend::Import(const Descs& in) {
  return Backend::OpPtr(std::make_unique<ImportOp>(context_, in[0]));
}

StatusOr<Backend::OpPtr> CudaBackend::Round(ElementType element, const Descs& in) {
  return Backend::OpPtr(std::make_unique<RoundOp>(context_, element, in[0]));
}

}  // namespace hp::cuda
