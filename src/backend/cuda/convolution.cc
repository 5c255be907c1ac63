#include "backend/cuda/add_layout.h"
#include "backend/cuda/column_sums.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/scratch.h"
#include "backend/layout.h"
#include "backend/window.h"

#include <algorithm>

namespace hp::cuda {
namespace {

Shape OutputShape(const ConvolutionDesc& desc, const Shape& in) {
  return {in[0], desc.num_output, ConvolvedSize(in[2], desc.kernel_h, desc.stride_h, desc.pad_h, desc.dilation_h),
          ConvolvedSize(in[3], desc.kernel_w, desc.stride_w, desc.pad_w, desc.dilation_w)};
}

/// y = conv(x, W) + b in NHWC and the library's element type. An input of another layout or type is brought there
/// through scratch, in BackwardParams again: a pass over it costs less than keeping a copy for every solver. The
/// weights are read from a copy in [O, kH, kW, C / group], made once for each version, as is the bias where its type is
/// another; their gradient is computed so and brought back.
class ConvolutionOp final : public Op {
 public:
  ConvolutionOp(const GpuContext& context, const ConvolutionDesc& desc, const TensorDesc& in,
                std::unique_ptr<GpuConvolution> convolution)
      : context_(context),
        bias_(desc.bias),
        in_(in),
        nhwc_{in.shape, in.shape[1], context.library->element()},
        weights_{{desc.num_output, in.shape[1] / desc.group, desc.kernel_h, desc.kernel_w}, 1},
        krsc_{weights_.shape, weights_.shape[1], context.library->element()},
        convolution_(std::move(convolution)) {
    outputs_ = {{OutputShape(desc, in.shape), desc.num_output, context.library->element()}};
    ScratchPlan plan;
    plan.Add(convolution_->workspace_bytes());
    if (!InputInPlace()) input_offset_ = plan.Add(nhwc_.bytes());
    weights_offset_ = plan.Add(krsc_.bytes());
    if (bias_) sums_offset_ = plan.Add(ColumnSumsScratch(OutputPixels(), desc.num_output) * sizeof(float));
    scratch_bytes_ = plan.bytes();
    if (!WeightsInPlace()) packed_bytes_ = krsc_.bytes();
    if (!BiasInPlace()) packed_bytes_ += OwnBias().bytes();
  }

  void Forward(const OpArgs& args) override {
    convolution_->Forward(Source(args), Weights(args), Bias(args), args.out[0].data, Workspace(args));
  }

  void BackwardInput(const OpArgs& args) override {
    void* dx = args.d_in[0].data;
    if (dx == nullptr) return;
    void* nhwc = InputInPlace() ? dx : args.scratch + input_offset_;
    convolution_->BackwardInput(args.d_out[0].data, Weights(args), nhwc, Workspace(args));
    if (nhwc != dx) CopyLayout(context_.stream(), nhwc_, nhwc, in_, dx);
  }

  void BackwardParams(const OpArgs& args) override {
    // A gradient in Caffe's own layout that is not added to needs no detour.
    const bool direct = WeightsInPlace() && !args.accumulate;
    void* d_weights = direct ? static_cast<void*>(args.d_params[0]) : args.scratch + weights_offset_;
    convolution_->BackwardWeights(Source(args), args.d_out[0].data, d_weights, Workspace(args));
    if (args.accumulate) {
      AddNhwcToDense(context_.stream(), krsc_, d_weights, args.d_params[0]);
    } else if (!direct) {
      CopyLayout(context_.stream(), krsc_, d_weights, weights_, args.d_params[0]);
    }
    if (!bias_) return;
    ColumnSums(context_.stream(), OutputPixels(), weights_.shape[0], krsc_.element, args.d_out[0].data, args.accumulate,
               args.d_params[1], ScratchFloats(args.scratch, sums_offset_));
  }

  bool backward_reads_output() const override { return false; }

 private:
  int64_t OutputPixels() const { return outputs_[0].count() / weights_.shape[0]; }
  bool InputInPlace() const { return LiesNhwc(in_) && in_.element == nhwc_.element; }
  bool WeightsInPlace() const { return LiesNhwc(weights_) && weights_.element == krsc_.element; }
  bool BiasInPlace() const { return !bias_ || krsc_.element == ElementType::kFloat32; }
  TensorDesc OwnBias() const { return {Shape{1, weights_.shape[0]}, 1, krsc_.element}; }
  std::byte* Workspace(const OpArgs& args) const { return args.scratch; }

  const void* Source(const OpArgs& args) const {
    if (InputInPlace()) return args.in[0].data;
    std::byte* copy = args.scratch + input_offset_;
    CopyLayout(context_.stream(), in_, args.in[0].data, nhwc_, copy);
    return copy;
  }
  const void* Weights(const OpArgs& args) const {
    const ParamView& param = args.params[0];
    if (WeightsInPlace()) return param.data;
    // Kept beyond this call, and perhaps beyond this op.
    const auto fill = [stream = context_.stream(), from = weights_, to = krsc_, data = param.data](std::byte* copy) {
      CopyLayout(stream, from, data, to, copy);
    };
    return param.packed->Get("krsc " + krsc_.shape.ToString(), krsc_.bytes(), param.version, fill);
  }
  const void* Bias(const OpArgs& args) const {
    if (!bias_) return nullptr;
    const ParamView& param = args.params[1];
    if (BiasInPlace()) return param.data;
    const auto fill = [stream = context_.stream(), to = OwnBias(), data = param.data](std::byte* copy) {
      CopyLayout(stream, {to.shape, 1}, data, to, copy);
    };
    return param.packed->Get("16 bits", OwnBias().bytes(), param.version, fill);
  }

  const GpuContext context_;
  const bool bias_;
  const TensorDesc in_, nhwc_;
  const TensorDesc weights_, krsc_;  ///< as Caffe has them, and as the library does
  const std::unique_ptr<GpuConvolution> convolution_;
  size_t input_offset_ = 0, weights_offset_ = 0, sums_offset_ = 0;
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Convolution(const ConvolutionDesc& desc, const Descs& in) {
  HP_ASSIGN_OR_RETURN(std::unique_ptr<GpuConvolution> convolution, context_.library->Convolution(desc, in[0].shape));
  return Backend::OpPtr(std::make_unique<ConvolutionOp>(context_, desc, in[0], std::move(convolution)));
}

}  // namespace hp::cuda
