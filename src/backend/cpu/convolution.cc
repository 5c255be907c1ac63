#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/inner_product.h"
#include "backend/cpu/onednn.h"

#include <algorithm>

namespace hp {
namespace {

using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;
using dnnl::memory;
using onednn::Reorder;

/// The channel blocks that the convolution itself works on.
struct Layouts {
  int64_t in = 1, out = 1;
  bool nhwc = false;
};

/// Whether the one window is the whole image: then the convolution is a product of [N, C * H * W] and the weights, of
/// which oneDNN's convolutions, who look for many windows, make 16 x 32 pixels 200 times as slow as sgemm.
bool IsProduct(const ConvolutionDesc& desc, const Shape& in) {
  const bool whole = desc.kernel_h == in[2] && desc.kernel_w == in[3];
  const bool dense = desc.dilation_h == 1 && desc.dilation_w == 1;
  return whole && dense && desc.group == 1 && desc.pad_h == 0 && desc.pad_w == 0;
}

/// Blocked where whole blocks fit into each group; the first convolution of a net reads its few channels dense and
/// writes blocked (oneDNN has a kernel for that); else NHWC, which needs no multiple of anything and no padding.
Layouts ChooseLayouts(const ConvolutionDesc& desc, int64_t channels) {
  const int64_t block = onednn::NativeBlock();
  const bool out_blocked = desc.num_output / desc.group % block == 0;
  if (out_blocked && channels / desc.group % block == 0) return {block, block};
  if (out_blocked && desc.group == 1 && channels <= 3 && !desc.input_gradient) return {1, block};
  return {channels, desc.num_output, true};
}

memory::desc Dense(const memory::dims& dims) {
  memory::dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i]) strides[i] = stride;
  return {dims, memory::data_type::f32, strides};
}

memory::desc AnyFormat(const memory::dims& dims) { return {dims, memory::data_type::f32, memory::format_tag::any}; }

/// The weights in the format of one primitive, repacked once for each version.
class PackedWeights {
 public:
  PackedWeights() = default;
  PackedWeights(const onednn::Context& context, const memory::desc& dense, const memory::desc& wanted)
      : key_("conv " + onednn::FormatName(wanted)), wanted_(wanted), reorder_(context, dense, wanted) {}

  /// Of the copy; 0: the weights are read where they are.
  size_t bytes() const { return reorder_.needed() ? wanted_.get_size() : 0; }
  /// Whether both are the same copy.
  bool IsAs(const PackedWeights& other) const { return key_ == other.key_; }
  memory Get(onednn::Context* context, const ParamView& param) const {
    if (!reorder_.needed()) return context->Memory(wanted_, param.data);
    std::byte* packed =
        param.packed->Get(key_, wanted_.get_size(), param.version,
                          [this, context, data = param.data](std::byte* to) { reorder_.Run(context, data, to); });
    return context->Memory(wanted_, packed);
  }

 private:
  std::string key_;
  memory::desc wanted_;
  Reorder reorder_;
};

/// Hands out aligned pieces of a scratch area; without memory it only adds up their sizes.
class Pieces {
 public:
  explicit Pieces(std::byte* begin = nullptr) : begin_(begin) {}
  std::byte* Take(size_t bytes) {
    std::byte* piece = begin_ == nullptr ? nullptr : begin_ + used_;
    used_ += (bytes + 63) / 64 * 64;
    return piece;
  }
  size_t used() const { return used_; }

 private:
  std::byte* begin_;
  size_t used_ = 0;
};

/// y = conv(x, W) + b by oneDNN. Inputs in another layout than the convolution's are reordered through scratch, in
/// BackwardParams again: a pass over the input costs less than keeping a copy for every solver.
class ConvolutionOp final : public Op {
 public:
  /// Throws dnnl::error.
  ConvolutionOp(const ConvolutionDesc& desc, const TensorDesc& in);

  void Forward(const OpArgs& args) override;
  void BackwardInput(const OpArgs& args) override;
  void BackwardParams(const OpArgs& args) override;
  bool backward_reads_output() const override { return false; }

 private:
  /// The pieces of scratch that the three calls use; the same code plans their sizes and hands them out.
  struct Scratch {
    std::byte *primitive, *input, *weights, *bias;
  };
  Scratch ForwardScratch(Pieces* pieces) const;
  Scratch BackwardInputScratch(Pieces* pieces) const;
  Scratch BackwardParamsScratch(Pieces* pieces) const;
  /// The input in the convolution's layout: itself, or a copy in `copy`.
  memory Source(const OpArgs& args, std::byte* copy);
  void AddBias(const float* sum, float* d_bias) const;

  void MakeForward();
  void MakeBackwardInput();
  void MakeBackwardParams();

  const bool bias_;
  const int64_t num_output_;
  onednn::Context context_;
  memory::desc in_, src_, dst_;  // the input as it comes and as the convolution reads it; the output
  memory::desc weights_, bias_desc_;
  memory::dims strides_, dilates_, pad_;
  Reorder in_to_src_, src_to_in_;

  convolution_forward::primitive_desc forward_pd_;
  convolution_forward forward_;
  PackedWeights forward_weights_;
  convolution_backward_data::primitive_desc backward_input_pd_;
  convolution_backward_data backward_input_;
  PackedWeights backward_weights_;
  convolution_backward_weights::primitive_desc backward_params_pd_;
  convolution_backward_weights backward_params_;
  Reorder store_gradient_, add_gradient_;
};

int64_t OutputSize(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
  return (in + 2 * pad - (dilation * (kernel - 1) + 1)) / stride + 1;
}

ConvolutionOp::ConvolutionOp(const ConvolutionDesc& desc, const TensorDesc& in)
    : bias_(desc.bias), num_output_(desc.num_output) {
  const Shape& shape = in.shape;
  const int64_t channels = shape[1], height = shape[2], width = shape[3];
  const int64_t out_h = OutputSize(height, desc.kernel_h, desc.stride_h, desc.pad_h, desc.dilation_h);
  const int64_t out_w = OutputSize(width, desc.kernel_w, desc.stride_w, desc.pad_w, desc.dilation_w);
  const Layouts layouts = ChooseLayouts(desc, channels);
  outputs_ = {{Shape{shape[0], desc.num_output, out_h, out_w}, layouts.out}};
  in_ = onednn::Describe(shape, in.channel_block);
  src_ = layouts.nhwc ? onednn::DescribeNhwc(shape) : onednn::Describe(shape, layouts.in);
  dst_ = layouts.nhwc ? onednn::DescribeNhwc(outputs_[0].shape) : onednn::Describe(outputs_[0].shape, layouts.out);
  const int64_t group = desc.group;
  weights_ = group > 1 ? Dense({group, desc.num_output / group, channels / group, desc.kernel_h, desc.kernel_w})
                       : Dense({desc.num_output, channels, desc.kernel_h, desc.kernel_w});
  if (bias_) bias_desc_ = Dense({desc.num_output});
  strides_ = {desc.stride_h, desc.stride_w};
  dilates_ = {desc.dilation_h - 1, desc.dilation_w - 1};
  pad_ = {desc.pad_h, desc.pad_w};
  // Not by comparing in_ with src_: one layout can have two names.
  if (in.channel_block != layouts.in) {
    in_to_src_ = Reorder(context_, in_, src_);
    src_to_in_ = Reorder(context_, src_, in_);
  }
  MakeForward();
  if (desc.input_gradient) MakeBackwardInput();
  MakeBackwardParams();

  Pieces forward, backward_input, backward_params;
  ForwardScratch(&forward);
  if (desc.input_gradient) BackwardInputScratch(&backward_input);
  BackwardParamsScratch(&backward_params);
  scratch_bytes_ = std::max({forward.used(), backward_input.used(), backward_params.used()});
  packed_bytes_ = forward_weights_.bytes();
  if (desc.input_gradient && !backward_weights_.IsAs(forward_weights_)) packed_bytes_ += backward_weights_.bytes();
}

void ConvolutionOp::MakeForward() {
  const convolution_forward::desc wanted(dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, src_,
                                         AnyFormat(weights_.dims()), bias_desc_, dst_, strides_, dilates_, pad_, pad_);
  forward_pd_ = {wanted, onednn::UserScratchpad(), context_.engine};
  forward_ = convolution_forward(forward_pd_);
  forward_weights_ = PackedWeights(context_, weights_, forward_pd_.weights_desc());
}

void ConvolutionOp::MakeBackwardInput() {
  const convolution_backward_data::desc wanted(dnnl::algorithm::convolution_direct, src_, AnyFormat(weights_.dims()),
                                               dst_, strides_, dilates_, pad_, pad_);
  backward_input_pd_ = {wanted, onednn::UserScratchpad(), context_.engine, forward_pd_};
  backward_input_ = convolution_backward_data(backward_input_pd_);
  backward_weights_ = PackedWeights(context_, weights_, backward_input_pd_.weights_desc());
}

void ConvolutionOp::MakeBackwardParams() {
  const convolution_backward_weights::desc wanted(dnnl::algorithm::convolution_direct, src_, AnyFormat(weights_.dims()),
                                                  bias_desc_, dst_, strides_, dilates_, pad_, pad_);
  backward_params_pd_ = {wanted, onednn::UserScratchpad(), context_.engine, forward_pd_};
  backward_params_ = convolution_backward_weights(backward_params_pd_);
  const memory::desc format = backward_params_pd_.diff_weights_desc();
  store_gradient_ = Reorder(context_, format, weights_);
  add_gradient_ = Reorder(context_, format, weights_, /*add=*/true);
}

ConvolutionOp::Scratch ConvolutionOp::ForwardScratch(Pieces* pieces) const {
  Scratch scratch = {};
  scratch.primitive = pieces->Take(forward_pd_.scratchpad_desc().get_size());
  if (in_to_src_.needed()) scratch.input = pieces->Take(src_.get_size());
  return scratch;
}

ConvolutionOp::Scratch ConvolutionOp::BackwardInputScratch(Pieces* pieces) const {
  Scratch scratch = {};
  scratch.primitive = pieces->Take(backward_input_pd_.scratchpad_desc().get_size());
  if (src_to_in_.needed()) scratch.input = pieces->Take(src_.get_size());
  return scratch;
}

ConvolutionOp::Scratch ConvolutionOp::BackwardParamsScratch(Pieces* pieces) const {
  Scratch scratch = {};
  scratch.primitive = pieces->Take(backward_params_pd_.scratchpad_desc().get_size());
  if (in_to_src_.needed()) scratch.input = pieces->Take(src_.get_size());
  scratch.weights = pieces->Take(backward_params_pd_.diff_weights_desc().get_size());
  if (bias_) scratch.bias = pieces->Take(bias_desc_.get_size());
  return scratch;
}

memory ConvolutionOp::Source(const OpArgs& args, std::byte* copy) {
  if (!in_to_src_.needed()) return context_.Memory(src_, args.in[0].floats());
  in_to_src_.Run(&context_, args.in[0].floats(), copy);
  return context_.Memory(src_, copy);
}

void ConvolutionOp::Forward(const OpArgs& args) {
  Pieces pieces(args.scratch);
  const Scratch scratch = ForwardScratch(&pieces);
  std::unordered_map<int, memory> arguments = {
      {DNNL_ARG_SRC, Source(args, scratch.input)},
      {DNNL_ARG_WEIGHTS, forward_weights_.Get(&context_, args.params[0])},
      {DNNL_ARG_DST, context_.Memory(dst_, args.out[0].floats())},
      {DNNL_ARG_SCRATCHPAD, context_.Memory(forward_pd_.scratchpad_desc(), scratch.primitive)}};
  if (bias_) arguments[DNNL_ARG_BIAS] = context_.Memory(bias_desc_, args.params[1].data);
  context_.Execute(forward_, arguments);
}

void ConvolutionOp::BackwardInput(const OpArgs& args) {
  if (args.d_in[0].data == nullptr) return;
  Pieces pieces(args.scratch);
  const Scratch scratch = BackwardInputScratch(&pieces);
  void* d_src = src_to_in_.needed() ? static_cast<void*>(scratch.input) : args.d_in[0].floats();
  context_.Execute(backward_input_,
                   {{DNNL_ARG_DIFF_DST, context_.Memory(dst_, args.d_out[0].floats())},
                    {DNNL_ARG_WEIGHTS, backward_weights_.Get(&context_, args.params[0])},
                    {DNNL_ARG_DIFF_SRC, context_.Memory(src_, d_src)},
                    {DNNL_ARG_SCRATCHPAD, context_.Memory(backward_input_pd_.scratchpad_desc(), scratch.primitive)}});
  if (src_to_in_.needed()) src_to_in_.Run(&context_, d_src, args.d_in[0].floats());
}

void ConvolutionOp::BackwardParams(const OpArgs& args) {
  Pieces pieces(args.scratch);
  const Scratch scratch = BackwardParamsScratch(&pieces);
  // A gradient in Caffe's own layout that is not added to needs no detour.
  const bool direct = !store_gradient_.needed() && !args.accumulate;
  void* d_weights = direct ? static_cast<void*>(args.d_params[0]) : scratch.weights;
  std::unordered_map<int, memory> arguments = {
      {DNNL_ARG_SRC, Source(args, scratch.input)},
      {DNNL_ARG_DIFF_DST, context_.Memory(dst_, args.d_out[0].floats())},
      {DNNL_ARG_DIFF_WEIGHTS, context_.Memory(backward_params_pd_.diff_weights_desc(), d_weights)},
      {DNNL_ARG_SCRATCHPAD, context_.Memory(backward_params_pd_.scratchpad_desc(), scratch.primitive)}};
  float* d_bias = nullptr;
  if (bias_) {
    d_bias = args.accumulate ? reinterpret_cast<float*>(scratch.bias) : args.d_params[1];
    arguments[DNNL_ARG_DIFF_BIAS] = context_.Memory(bias_desc_, d_bias);
  }
  context_.Execute(backward_params_, arguments);
  if (!direct) (args.accumulate ? add_gradient_ : store_gradient_).Run(&context_, d_weights, args.d_params[0]);
  if (bias_ && args.accumulate) AddBias(d_bias, args.d_params[1]);
}

void ConvolutionOp::AddBias(const float* sum, float* d_bias) const {
  for (int64_t i = 0; i < num_output_; ++i) d_bias[i] += sum[i];
}

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Convolution(const ConvolutionDesc& desc, const Descs& in) {
  if (IsProduct(desc, in[0].shape)) {
    return MakeInnerProduct({desc.num_output, desc.bias, desc.input_gradient}, in,
                            Shape{in[0].shape[0], desc.num_output, 1, 1});
  }
  Backend::OpPtr op;
  HP_RETURN_IF_ERROR(onednn::Guard("convolution", [&] { op = std::make_unique<ConvolutionOp>(desc, in[0]); }));
  return op;
}

}  // namespace hp
