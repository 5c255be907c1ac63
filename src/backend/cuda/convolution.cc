#include "backend/cuda/add_bias.h"
#include "backend/cuda/convolution_operands.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/output_sums.h"
#include "backend/cuda/scratch.h"
#include "backend/window.h"

#include <optional>

namespace hp::cuda {
namespace {

/// What a convolution and a deconvolution have alike: the library's layout and element type. An input of another layout
/// or type is brought there through scratch, in BackwardParams again: a pass over it costs less than keeping a copy for
/// every solver. Only a copy whose channels are padded is kept: it is that of a net's images, which no other op needs
/// in the backward pass.
class WindowOp : public Op {
 public:
  void BackwardInput(const OpArgs& args) final {
    if (args.d_in[0].data == nullptr) return;
    if (relu_gradient_) TakeBackRelu(args);
    void* dx = input_.Target(args.d_in[0], args.scratch + input_offset_);
    InputGradient(OutputGradient(args), weights_.Read(args.params[0]), dx, args.scratch);
    input_.Store(dx, args.d_in[0]);
  }

  void BackwardParams(const OpArgs& args) final {
    const bool relu_pending = relu_gradient_ && args.d_in[0].data == nullptr;  // there was no BackwardInput
    if (relu_pending) TakeBackRelu(args);
    void* d_weights = weights_.Target(args);
    WeightGradient(keeps_input() ? InputCopy(args) : Source(args), OutputGradient(args), d_weights, args.scratch);
    weights_.Store(args, d_weights);
    if (!bias_) return;
    const GpuStream stream = context_.stream();
    if (relu_gradient_) {
      sums_.Add(stream, Sums(args), args.accumulate, args.d_params[1]);
    } else {
      sums_.Sum(stream, args.d_out[0].data, args.accumulate, args.d_params[1],
                ScratchFloats(args.scratch, sums_offset_));
    }
  }

  bool reads_raw_images() const final { return keeps_input() && input_.may_be_raw() && !input_gradient_; }
  bool backward_reads_input() const final { return !keeps_input(); }
  bool backward_reads_output() const final { return relu_gradient_; }

 protected:
  WindowOp(const GpuContext& context, const ConvolutionDesc& desc, const TensorDesc& in, const Shape& weights,
           const Shape& out, std::unique_ptr<GpuConvolution> convolution, int64_t padded_channels = 0)
      : context_(context),
        input_gradient_(desc.input_gradient),
        out_(ConvolutionForm(context, out, convolution->nhwc(), 0)),
        input_(context, in, *convolution, padded_channels),
        output_(context, out_, *convolution),
        weights_(context, weights, convolution->nhwc(), padded_channels),
        sums_(out_),
        convolution_(std::move(convolution)) {
    outputs_ = {out_};
    packed_bytes_ = weights_.packed_bytes();
    if (desc.bias) {
      bias_.emplace(context, desc.num_output);
      packed_bytes_ += bias_->packed_bytes();
    }
    PlanMemory();
  }

  void PlanMemory() {
    ScratchPlan scratch, saved;
    scratch.Add(convolution_->workspace_bytes());
    input_offset_ = scratch.Add(keeps_input() && !input_gradient_ ? 0 : input_.copy_bytes());
    output_offset_ = scratch.Add(output_.copy_bytes());
    kept_offset_ = saved.Add(keeps_input() ? input_.copy_bytes() : 0);
    if (bias_) sums_offset_ = (relu_gradient_ ? saved : scratch).Add(sums_.bytes());
    scratch_bytes_ = scratch.bytes(), saved_bytes_ = saved.bytes();
  }
  /// From now on the gradient that comes is that of a ReLU behind. Sums of the bias gradient are made by the first
  /// backward call and kept for the second.
  void ExpectReluGradient() {
    relu_gradient_ = true;
    PlanMemory();
  }

  virtual void InputGradient(const void* dy, const void* weights, void* dx, std::byte* workspace) = 0;
  virtual void WeightGradient(const void* x, const void* dy, void* d_weights, std::byte* workspace) = 0;

  bool keeps_input() const { return input_.padded(); }
  /// Where the input is copied to, if it is.
  std::byte* InputCopy(const OpArgs& args) const {
    return keeps_input() ? args.saved + kept_offset_ : args.scratch + input_offset_;
  }
  float* Sums(const OpArgs& args) const { return bias_ ? ScratchFloats(args.saved, sums_offset_) : nullptr; }
  /// Makes args.d_out the gradient of what the ReLU reads.
  void TakeBackRelu(const OpArgs& args) const {
    sums_.TakeRelu(context_.stream(), args.out[0].data, args.d_out[0].data, Sums(args));
  }
  const void* Source(const OpArgs& args) const {
    if (args.raw_images != nullptr) return input_.ReadRaw(*args.raw_images, InputCopy(args));
    return input_.Read(args.in[0], InputCopy(args));
  }
  void* Output(const OpArgs& args) const { return output_.Target(args.out[0], args.scratch + output_offset_); }
  const void* OutputGradient(const OpArgs& args) const {
    return output_.Read(args.d_out[0], args.scratch + output_offset_);
  }
  const void* Weights(const OpArgs& args) const { return weights_.Read(args.params[0]); }
  const void* Bias(const OpArgs& args) const { return bias_ ? bias_->Read(args.params[1]) : nullptr; }

  const GpuContext context_;
  const bool input_gradient_;
  const TensorDesc out_;
  ConvolutionTensor input_, output_;
  const ConvolutionWeights weights_;
  OutputSums sums_;
  std::optional<TypedBias> bias_;
  const std::unique_ptr<GpuConvolution> convolution_;
  size_t input_offset_ = 0, output_offset_ = 0;  // in scratch
  size_t kept_offset_ = 0;                       // in saved
  size_t sums_offset_ = 0;                       // in saved with relu_gradient_, else in scratch
  bool relu_gradient_ = false;                   // of a ReLU behind it, which this op has to take back
};

/// y = conv(x, W) + b.
class ConvolutionOp final : public WindowOp {
 public:
  ConvolutionOp(const GpuContext& context, const ConvolutionDesc& desc, const TensorDesc& in,
                std::unique_ptr<GpuConvolution> convolution, int64_t padded_channels)
      : WindowOp(context, desc, in, Shape{desc.num_output, in.shape[1] / desc.group, desc.kernel_h, desc.kernel_w},
                 ConvolvedShape(desc, in.shape), std::move(convolution), padded_channels) {}

  void Forward(const OpArgs& args) override {
    void* const y = Output(args);
    convolution_->Forward(Source(args), Weights(args), Bias(args), y, args.scratch);
    output_.Store(y, args.out[0]);
  }
  bool TakeReluBehind() override {
    if (!convolution_->TakeRelu()) return false;
    PlanMemory();
    return true;
  }
  bool TakeReluGradientBehind() override {
    ExpectReluGradient();
    return true;
  }
  int64_t groups() const override { return convolution_->groups(); }
  bool ReadGroups(int64_t groups) override {
    if (!input_.LieInGroups(groups)) return false;
    PlanMemory();
    return true;
  }
  bool WriteGroups(int64_t groups) override {
    if (!output_.LieInGroups(groups)) return false;
    sums_ = OutputSums(out_, groups);
    PlanMemory();
    return true;
  }

 private:
  void InputGradient(const void* dy, const void* weights, void* dx, std::byte* workspace) override {
    convolution_->BackwardInput(dy, weights, dx, workspace);
  }
  void WeightGradient(const void* x, const void* dy, void* d_weights, std::byte* workspace) override {
    convolution_->BackwardWeights(x, dy, d_weights, workspace);
  }
};

/// y = deconv(x, W) + b, computed by the convolution from y's shape to x's, which has the same weights: forward is its
/// gradient of the input, and the gradient of x its forward pass.
class DeconvolutionOp final : public WindowOp {
 public:
  DeconvolutionOp(const GpuContext& context, const ConvolutionDesc& desc, const TensorDesc& in,
                  std::unique_ptr<GpuConvolution> mirrored)
      : WindowOp(context, desc, in, Shape{in.shape[1], desc.num_output / desc.group, desc.kernel_h, desc.kernel_w},
                 DeconvolvedShape(desc, in.shape), std::move(mirrored)) {}

  void Forward(const OpArgs& args) override {
    void* const y = Output(args);
    convolution_->BackwardInput(Source(args), Weights(args), y, args.scratch);
    output_.Store(y, args.out[0]);
    if (const void* const bias = Bias(args)) {
      AddChannelBias(context_.stream(), out_, bias, args.out[0].data);
    }
  }

 private:
  void InputGradient(const void* dy, const void* weights, void* dx, std::byte* workspace) override {
    convolution_->Forward(dy, weights, nullptr, dx, workspace);
  }
  void WeightGradient(const void* x, const void* dy, void* d_weights, std::byte* workspace) override {
    convolution_->BackwardWeights(dy, x, d_weights, workspace);
  }
};

/// What the input's channels are padded to where tensor cores want more of them; 0: nothing. An input that the library
/// can read where it is stays there: a copy of it would be one more pass over memory. So does one channel: eight times
/// its memory saves next to no workspace.
int64_t PaddedChannels(const GpuLibrary& library, const ConvolutionDesc& desc, const TensorDesc& in) {
  const bool in_place = LiesNhwc(in) && in.element == library.element();
  const int64_t channels = in.shape[1], pack = library.channel_pack();
  return desc.group == 1 && channels > 1 && channels < pack && !in_place ? pack : 0;
}

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Convolution(const ConvolutionDesc& desc, const Descs& in) {
  const int64_t padded = PaddedChannels(*context_.library, desc, in[0]);
  const Shape shape = padded > 0 ? in[0].shape.With(1, padded) : in[0].shape;
  HP_ASSIGN_OR_RETURN(std::unique_ptr<GpuConvolution> convolution, context_.library->Convolution(desc, shape));
  return Backend::OpPtr(std::make_unique<ConvolutionOp>(context_, desc, in[0], std::move(convolution), padded));
}

StatusOr<Backend::OpPtr> CudaBackend::Deconvolution(const ConvolutionDesc& desc, const Descs& in) {
  ConvolutionDesc back = desc;
  back.num_output = in[0].shape[1];
  back.bias = false, back.input_gradient = true;
  HP_ASSIGN_OR_RETURN(std::unique_ptr<GpuConvolution> mirrored,
                      context_.library->Convolution(back, DeconvolvedShape(desc, in[0].shape)));
  return Backend::OpPtr(std::make_unique<DeconvolutionOp>(context_, desc, in[0], std::move(mirrored)));
}

}  // namespace hp::cuda
