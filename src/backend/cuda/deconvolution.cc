#include "backend/cuda/add_bias.h"
#include "backend/cuda/column_sums.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/nhwc_operands.h"
#include "backend/cuda/scratch.h"
#include "backend/window.h"

#include <optional>

namespace hp::cuda {
namespace {

/// y = deconv(x, W) + b, computed by the convolution from y's shape to x's, which has the same weights: forward is its
/// gradient of the input, and the gradient of x its forward pass. Otherwise as a convolution's op.
class DeconvolutionOp final : public Op {
 public:
  DeconvolutionOp(const GpuContext& context, const ConvolutionDesc& desc, const TensorDesc& in,
                  std::unique_ptr<GpuConvolution> convolution)
      : context_(context),
        num_output_(desc.num_output),
        input_(context, in),
        weights_(context, Shape{in.shape[1], desc.num_output / desc.group, desc.kernel_h, desc.kernel_w}),
        convolution_(std::move(convolution)) {
    outputs_ = {{DeconvolvedShape(desc, in.shape), desc.num_output, context.library->element()}};
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
    convolution_->BackwardInput(Source(args), weights_.Read(args.params[0]), args.out[0].data, args.scratch);
    if (!bias_) return;
    AddBias(context_.stream(), OutputPixels(), num_output_, num_output_, bias_->Read(args.params[1]),
            outputs_[0].element, args.out[0].data);
  }

  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data == nullptr) return;
    void* dx = input_.Target(args.d_in[0], args.scratch + input_offset_);
    convolution_->Forward(args.d_out[0].data, weights_.Read(args.params[0]), nullptr, dx, args.scratch);
    input_.Store(dx, args.d_in[0]);
  }

  void BackwardParams(const OpArgs& args) override {
    void* d_weights = weights_.Target(args, args.scratch + weights_offset_);
    convolution_->BackwardWeights(args.d_out[0].data, Source(args), d_weights, args.scratch);
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

StatusOr<Backend::OpPtr> CudaBackend::Deconvolution(const ConvolutionDesc& desc, const Descs& in) {
  ConvolutionDesc back = desc;
  back.num_output = in[0].shape[1];
  back.bias = false, back.input_gradient = true;
  HP_ASSIGN_OR_RETURN(std::unique_ptr<GpuConvolution> convolution,
                      context_.library->Convolution(back, DeconvolvedShape(desc, in[0].shape)));
  return Backend::OpPtr(std::make_unique<DeconvolutionOp>(context_, desc, in[0], std::move(convolution)));
}

}  // namespace hp::cuda
