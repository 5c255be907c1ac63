#include "backend/cuda/column_sums.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/nhwc_operands.h"
#include "backend/cuda/scratch.h"
#include "backend/window.h"

#include <optional>

namespace hp::cuda {
namespace {

/// y = conv(x, W) + b in NHWC and the library's element type. An input of another layout or type is brought there
/// through scratch, in BackwardParams again: a pass over it costs less than keeping a copy for every solver.
class ConvolutionOp final : public Op {
 public:
  ConvolutionOp(const GpuContext& context, const ConvolutionDesc& desc, const TensorDesc& in,
                std::unique_ptr<GpuConvolution> convolution)
      : context_(context),
        num_output_(desc.num_output),
        input_(context, in),
        weights_(context, Shape{desc.num_output, in.shape[1] / desc.group, desc.kernel_h, desc.kernel_w}),
        convolution_(std::move(convolution)) {
    outputs_ = {{ConvolvedShape(desc, in.shape), desc.num_output, context.library->element()}};
    ScratchPlan plan;
    plan.Add(convolution_->workspace_bytes());
    input_offset_ = plan.Add(input_.copy_bytes());
    weights_offset_ = plan.Add(weights_.gradient_bytes());
    packed_bytes_ = weights_.packed_bytes();
    if (desc.bias) {
      bias_.emplace(context, num_output_);
      sums_offset_ = plan.Add(ColumnSumsScratch(OutputPixels(), num_output_) * sizeof(float));
      packed_bytes_ += bias_->packed_bytes();
    }
    scratch_bytes_ = plan.bytes();
  }

  void Forward(const OpArgs& args) override {
    const void* bias = bias_ ? bias_->Read(args.params[1]) : nullptr;
    convolution_->Forward(Source(args), weights_.Read(args.params[0]), bias, args.out[0].data, args.scratch);
  }

  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    void* dx = input_.Target(args.d_in[0], args.scratch + input_offset_);
    convolution_->BackwardInput(args.d_out[0].data, weights_.Read(args.params[0]), dx, args.scratch);
    input_.Store(dx, args.d_in[0]);
  }

  void BackwardParams(const OpArgs& args) override {
    void* d_weights = weights_.Target(args, args.scratch + weights_offset_);
    convolution_->BackwardWeights(Source(args), args.d_out[0].data, d_weights, args.scratch);
    weights_.Store(args, d_weights);
    if (!bias_) return;
    ColumnSums(context_.stream(), OutputPixels(), num_output_, outputs_[0].element, args.d_out[0].data, args.accumulate,
               args.d_params[1], ScratchFloats(args.scratch, sums_offset_));
  }

  bool backward_reads_output() const override { return false; }

 private:
  int64_t OutputPixels() const { return outputs_[0].count() / num_output_; }
  const void* Source(const OpArgs& args) const { return input_.Read(args.in[0], args.scratch + input_offset_); }

  const GpuContext context_;
  const int64_t num_output_;
  const NhwcInput input_;
  const KrscWeights weights_;
  std::optional<TypedBias> bias_;
  const std::unique_ptr<GpuConvolution> convolution_;
  size_t input_offset_ = 0, weights_offset_ = 0, sums_offset_ = 0;
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Convolution(const ConvolutionDesc& desc, const Descs& in) {
  HP_ASSIGN_OR_RETURN(std::unique_ptr<GpuConvolution> convolution, context_.library->Convolution(desc, in[0].shape));
  return Backend::OpPtr(std::make_unique<ConvolutionOp>(context_, desc, in[0], std::move(convolution)));
}

}  // namespace hp::cuda
