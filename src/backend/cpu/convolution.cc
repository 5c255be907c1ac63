// Convolutions and deconvolutions by oneDNN: three primitives each, which are made and called alike. A deconvolution's
// forward pass is what a convolution does to gradients, so its blob lies as the weights of that convolution do.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/element.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/inner_product.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/packed_weights.h"
#include "backend/cpu/product_gradient.h"
#include "backend/window.h"

#include <algorithm>
#include <memory>
#include <string>

namespace hp {
namespace {

using dnnl::memory;
using onednn::IsReference;
using onednn::PackedWeights;
using onednn::ProductGradient;
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
///
/// NHWC for bfloat16: as fast as blocks with AVX512_BF16, and with AMX the only layout that uses it (README.md).
Layouts ChooseLayouts(const ConvolutionDesc& desc, int64_t channels, ElementType element) {
  if (element == ElementType::kBFloat16) return {channels, desc.num_output, true};
  const int64_t block = onednn::NativeBlock();
  const bool out_blocked = desc.num_output / desc.group % block == 0;
  if (out_blocked && channels / desc.group % block == 0) return {block, block};
  if (out_blocked && desc.group == 1 && channels <= 3 && !desc.input_gradient) return {1, block};
  return {channels, desc.num_output, true};
}

/// @param in_memory the axes from the outermost to the innermost; empty: in order.
memory::desc Dense(const memory::dims& dims, std::vector<size_t> in_memory = {},
                   memory::data_type type = memory::data_type::f32) {
  if (in_memory.empty()) {
    for (size_t axis = 0; axis < dims.size(); ++axis) in_memory.push_back(axis);
  }
  memory::dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[in_memory[i]]) strides[in_memory[i]] = stride;
  return {dims, type, strides};
}

memory::desc AnyFormat(const memory::dims& dims, memory::data_type type) {
  return {dims, type, memory::format_tag::any};
}

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

/// What differs between the two: oneDNN's primitives, shapes, layouts, and where a weight lies.
struct Convolutions {
  static constexpr const char* kName = "convolution";
  using Forward = dnnl::convolution_forward;
  using BackwardInput = dnnl::convolution_backward_data;
  using BackwardWeights = dnnl::convolution_backward_weights;
  static constexpr dnnl::algorithm kDirect = dnnl::algorithm::convolution_direct;

  static constexpr bool kHasProductGradient = true;

  static Shape Output(const ConvolutionDesc& desc, const Shape& in) { return ConvolvedShape(desc, in); }
  static Layouts Choose(const ConvolutionDesc& desc, int64_t channels, ElementType element) {
    return ChooseLayouts(desc, channels, element);
  }
  /// [O, C / group, kH, kW].
  static memory::desc Weights(const ConvolutionDesc& desc, int64_t channels) {
    const int64_t group = desc.group, outputs = desc.num_output / group, inputs = channels / group;
    return group > 1 ? Dense({group, outputs, inputs, desc.kernel_h, desc.kernel_w})
                     : Dense({outputs, inputs, desc.kernel_h, desc.kernel_w});
  }
};
struct Deconvolutions {
  static constexpr const char* kName = "deconvolution";
  using Forward = dnnl::deconvolution_forward;
  using BackwardInput = dnnl::deconvolution_backward_data;
  using BackwardWeights = dnnl::deconvolution_backward_weights;
  static constexpr dnnl::algorithm kDirect = dnnl::algorithm::deconvolution_direct;

  static constexpr bool kHasProductGradient = false;

  static Shape Output(const ConvolutionDesc& desc, const Shape& in) { return DeconvolvedShape(desc, in); }
  /// None for a net's first: few channels are not where it spends its time.
  static Layouts Choose(ConvolutionDesc desc, int64_t channels, ElementType element) {
    desc.input_gradient = true;
    return ChooseLayouts(desc, channels, element);
  }
  /// [C, O / group, kH, kW], which oneDNN has with outputs first.
  static memory::desc Weights(const ConvolutionDesc& desc, int64_t channels) {
    const int64_t group = desc.group, outputs = desc.num_output / group, inputs = channels / group;
    return group > 1 ? Dense({group, outputs, inputs, desc.kernel_h, desc.kernel_w}, {0, 2, 1, 3, 4})
                     : Dense({outputs, inputs, desc.kernel_h, desc.kernel_w}, {1, 0, 2, 3});
  }
};

/// y = conv(x, W) + b by oneDNN. Inputs in another layout than the convolution's are reordered through scratch, in
/// BackwardParams again: a pass over the input costs less than keeping a copy for every solver.
template <typename Kind>
class ConvolutionOp final : public Op {
 public:
  /// @param element of the factors: what is read in another type is converted. Throws dnnl::error.
  ConvolutionOp(const ConvolutionDesc& desc, ElementType element, const TensorDesc& in);

  /// Whether oneDNN has nothing but its reference for some pass.
  bool is_reference() const { return is_reference_; }

  void Forward(const OpArgs& args) override;
  void BackwardInput(const OpArgs& args) override;
  void BackwardParams(const OpArgs& args) override;
  bool backward_reads_output() const override { return false; }

 private:
  /// Layouts of a convolution's input and output.
  struct Ends {
    memory::desc src, dst;
  };
  /// The pieces of scratch that the three calls use; the same code plans their sizes and hands them out.
  struct Scratch {
    std::byte *primitive, *input, *output, *weights, *bias;
  };
  Scratch ForwardScratch(Pieces* pieces) const;
  Scratch BackwardInputScratch(Pieces* pieces) const;
  Scratch BackwardParamsScratch(Pieces* pieces) const;
  /// What a pass reads, in the layout that it reads: `tensor` itself, or a copy in `copy`.
  memory In(const memory::desc& layout, const Tensor& tensor, const Reorder& reorder, std::byte* copy);
  /// make(*ends), a pass; or, where that is oneDNN's reference and of dense ends it has more, that of these,
  /// which are then in `ends`.
  template <typename Make>
  auto BestOf(const Make& make, Ends* ends);
  void AddBias(const float* sum, float* d_bias) const;

  void MakeForward();
  void MakeBackwardInput();
  /// By a product where Kind has that, else by oneDNN's own pass.
  void MakeBackwardParams(const ConvolutionDesc& desc, const Shape& in);

  const bool bias_;
  const int64_t num_output_;
  const memory::data_type type_;  // of the factors
  bool is_reference_ = false;
  onednn::Context context_;
  memory::desc in_, src_, dst_;  // the input as it comes and as the convolution reads it; the output
  memory::desc weights_, bias_desc_;
  memory::dims strides_, dilates_, pad_;
  Reorder in_to_src_, src_to_in_;

  typename Kind::Forward::primitive_desc forward_pd_;
  typename Kind::Forward forward_;
  PackedWeights forward_weights_;
  typename Kind::BackwardInput::primitive_desc backward_input_pd_;
  typename Kind::BackwardInput backward_input_;
  PackedWeights backward_weights_;
  typename Kind::BackwardWeights::primitive_desc backward_params_pd_;
  typename Kind::BackwardWeights backward_params_;
  onednn::WeightsReorder gradient_reorder_;
  std::unique_ptr<ProductGradient> product_gradient_;  // in place of backward_params_
  // As the passes read or write input and output: src_ and dst_, or both dense where oneDNN has nothing but its
  // reference for those. That takes a hundred times as long, and is all there is with AVX2 alone for one channel beside
  // a blocked output, for pads of 4 and more, for large windows with a stride and a pad, and for others.
  Ends forward_ends_, input_ends_, params_ends_;
  Reorder in_to_forward_, forward_to_dst_, dst_to_input_, in_to_params_, dst_to_params_;
};

template <typename Kind>
ConvolutionOp<Kind>::ConvolutionOp(const ConvolutionDesc& desc, ElementType element, const TensorDesc& in)
    : bias_(desc.bias), num_output_(desc.num_output), type_(onednn::TypeOf(element)) {
  const Shape& shape = in.shape;
  const Layouts layouts = Kind::Choose(desc, shape[1], element);
  outputs_ = {{Kind::Output(desc, shape), layouts.out, element}};
  const auto describe = [&](const Shape& of, int64_t block) {
    return layouts.nhwc ? onednn::DescribeNhwc(of, type_) : onednn::Describe(of, block, type_);
  };
  in_ = onednn::Describe(shape, in.channel_block, onednn::TypeOf(in.element));
  src_ = describe(shape, layouts.in);
  dst_ = describe(outputs_[0].shape, layouts.out);
  weights_ = Kind::Weights(desc, shape[1]);
  if (bias_) bias_desc_ = Dense({desc.num_output});
  strides_ = {desc.stride_h, desc.stride_w};
  dilates_ = {desc.dilation_h - 1, desc.dilation_w - 1};
  pad_ = {desc.pad_h, desc.pad_w};
  // Not by comparing in_ with src_: one layout can have two names.
  if (in.channel_block != layouts.in || in.element != element) {
    in_to_src_ = Reorder(context_, in_, src_);
    src_to_in_ = Reorder(context_, src_, in_);
  }
  MakeForward();
  if (desc.input_gradient) MakeBackwardInput();
  MakeBackwardParams(desc, shape);

  Pieces forward, backward_input, backward_params;
  ForwardScratch(&forward);
  if (desc.input_gradient) BackwardInputScratch(&backward_input);
  BackwardParamsScratch(&backward_params);
  scratch_bytes_ = std::max({forward.used(), backward_input.used(), backward_params.used()});
  packed_bytes_ = forward_weights_.bytes();
  if (desc.input_gradient && !backward_weights_.IsAs(forward_weights_)) packed_bytes_ += backward_weights_.bytes();
}

template <typename Kind>
void ConvolutionOp<Kind>::MakeForward() {
  using Pass = typename Kind::Forward;
  forward_ends_ = {src_, dst_};
  forward_pd_ = BestOf(
      [this](const Ends& of) {
        const typename Pass::desc wanted(dnnl::prop_kind::forward_training, Kind::kDirect, of.src,
                                         AnyFormat(weights_.dims(), type_), bias_desc_, of.dst, strides_, dilates_,
                                         pad_, pad_);
        return typename Pass::primitive_desc(wanted, onednn::UserScratchpad(), context_.engine);
      },
      &forward_ends_);
  in_to_forward_ = forward_ends_.src == src_ ? in_to_src_ : Reorder(context_, in_, forward_ends_.src);
  forward_to_dst_ = Reorder(context_, forward_ends_.dst, dst_);
  forward_ = Pass(forward_pd_);
  forward_weights_ = PackedWeights(Kind::kName, context_, weights_, forward_pd_.weights_desc());
}

template <typename Kind>
template <typename Make>
auto ConvolutionOp<Kind>::BestOf(const Make& make, Ends* ends) {
  const auto pd = make(*ends);
  if (!IsReference(pd)) return pd;
  const Ends dense = {Dense(src_.dims(), {}, type_), Dense(dst_.dims(), {}, type_)};
  const auto of_dense = make(dense);
  is_reference_ = is_reference_ || IsReference(of_dense);
  if (IsReference(of_dense)) return pd;
  *ends = dense;
  return of_dense;
}

template <typename Kind>
void ConvolutionOp<Kind>::MakeBackwardInput() {
  using Pass = typename Kind::BackwardInput;
  input_ends_ = {src_, dst_};
  backward_input_pd_ = BestOf(
      [this](const Ends& of) {
        const typename Pass::desc wanted(Kind::kDirect, of.src, AnyFormat(weights_.dims(), type_), of.dst, strides_,
                                         dilates_, pad_, pad_);
        return typename Pass::primitive_desc(wanted, onednn::UserScratchpad(), context_.engine, forward_pd_);
      },
      &input_ends_);
  if (input_ends_.src != src_) src_to_in_ = Reorder(context_, input_ends_.src, in_);
  dst_to_input_ = Reorder(context_, dst_, input_ends_.dst);
  backward_input_ = Pass(backward_input_pd_);
  backward_weights_ = PackedWeights(Kind::kName, context_, weights_, backward_input_pd_.weights_desc());
}

template <typename Kind>
void ConvolutionOp<Kind>::MakeBackwardParams(const ConvolutionDesc& desc, const Shape& in) {
  using Pass = typename Kind::BackwardWeights;
  params_ends_ = {src_, dst_};
  if (Kind::kHasProductGradient && type_ == memory::data_type::bf16) {
    product_gradient_ = onednn::MakeProductGradient(context_, desc, in, outputs_[0].shape);
    if (product_gradient_ != nullptr) {
      in_to_params_ = in_to_src_;
      return;
    }
  }
  backward_params_pd_ = BestOf(
      [this](const Ends& of) {
        const typename Pass::desc wanted(Kind::kDirect, of.src, AnyFormat(weights_.dims(), memory::data_type::f32),
                                         bias_desc_, of.dst, strides_, dilates_, pad_, pad_);
        return typename Pass::primitive_desc(wanted, onednn::UserScratchpad(), context_.engine, forward_pd_);
      },
      &params_ends_);
  in_to_params_ = params_ends_.src == src_ ? in_to_src_ : Reorder(context_, in_, params_ends_.src);
  dst_to_params_ = Reorder(context_, dst_, params_ends_.dst);
  backward_params_ = Pass(backward_params_pd_);
  const memory::desc format = backward_params_pd_.diff_weights_desc();
  gradient_reorder_ = onednn::WeightsReorder(context_, format, weights_, /*can_add=*/true);
}

template <typename Kind>
typename ConvolutionOp<Kind>::Scratch ConvolutionOp<Kind>::ForwardScratch(Pieces* pieces) const {
  Scratch scratch = {};
  scratch.primitive = pieces->Take(forward_pd_.scratchpad_desc().get_size());
  if (in_to_forward_.needed()) scratch.input = pieces->Take(forward_ends_.src.get_size());
  if (forward_to_dst_.needed()) scratch.output = pieces->Take(forward_ends_.dst.get_size());
  return scratch;
}

template <typename Kind>
typename ConvolutionOp<Kind>::Scratch ConvolutionOp<Kind>::BackwardInputScratch(Pieces* pieces) const {
  Scratch scratch = {};
  scratch.primitive = pieces->Take(backward_input_pd_.scratchpad_desc().get_size());
  if (src_to_in_.needed()) scratch.input = pieces->Take(input_ends_.src.get_size());
  if (dst_to_input_.needed()) scratch.output = pieces->Take(input_ends_.dst.get_size());
  return scratch;
}

template <typename Kind>
typename ConvolutionOp<Kind>::Scratch ConvolutionOp<Kind>::BackwardParamsScratch(Pieces* pieces) const {
  Scratch scratch = {};
  if (in_to_params_.needed()) scratch.input = pieces->Take(params_ends_.src.get_size());
  if (product_gradient_ != nullptr) {
    scratch.primitive = pieces->Take(product_gradient_->scratch_bytes());
    return scratch;
  }
  scratch.primitive = pieces->Take(backward_params_pd_.scratchpad_desc().get_size());
  if (dst_to_params_.needed()) scratch.output = pieces->Take(params_ends_.dst.get_size());
  scratch.weights = pieces->Take(backward_params_pd_.diff_weights_desc().get_size());
  if (bias_) scratch.bias = pieces->Take(bias_desc_.get_size());
  return scratch;
}

template <typename Kind>
memory ConvolutionOp<Kind>::In(const memory::desc& layout, const Tensor& tensor, const Reorder& reorder,
                               std::byte* copy) {
  if (!reorder.needed()) return context_.Memory(layout, tensor.data);
  reorder.Run(&context_, tensor.data, copy);
  return context_.Memory(layout, copy);
}

template <typename Kind>
void ConvolutionOp<Kind>::Forward(const OpArgs& args) {
  Pieces pieces(args.scratch);
  const Scratch scratch = ForwardScratch(&pieces);
  void* const out = args.out[0].data;
  void* const dst = forward_to_dst_.needed() ? scratch.output : out;
  std::unordered_map<int, memory> arguments = {
      {DNNL_ARG_SRC, In(forward_ends_.src, args.in[0], in_to_forward_, scratch.input)},
      {DNNL_ARG_WEIGHTS, forward_weights_.Get(&context_, args.params[0])},
      {DNNL_ARG_DST, context_.Memory(forward_ends_.dst, dst)},
      {DNNL_ARG_SCRATCHPAD, context_.Memory(forward_pd_.scratchpad_desc(), scratch.primitive)}};
  if (bias_) arguments[DNNL_ARG_BIAS] = context_.Memory(bias_desc_, args.params[1].data);
  context_.Execute(forward_, arguments);
  if (forward_to_dst_.needed()) forward_to_dst_.Run(&context_, dst, out);
}

template <typename Kind>
void ConvolutionOp<Kind>::BackwardInput(const OpArgs& args) {
  if (args.d_in[0].data == nullptr) return;
  Pieces pieces(args.scratch);
  const Scratch scratch = BackwardInputScratch(&pieces);
  void* d_src = src_to_in_.needed() ? scratch.input : args.d_in[0].data;
  context_.Execute(backward_input_,
                   {{DNNL_ARG_DIFF_DST, In(input_ends_.dst, args.d_out[0], dst_to_input_, scratch.output)},
                    {DNNL_ARG_WEIGHTS, backward_weights_.Get(&context_, args.params[0])},
                    {DNNL_ARG_DIFF_SRC, context_.Memory(input_ends_.src, d_src)},
                    {DNNL_ARG_SCRATCHPAD, context_.Memory(backward_input_pd_.scratchpad_desc(), scratch.primitive)}});
  if (src_to_in_.needed()) src_to_in_.Run(&context_, d_src, args.d_in[0].data);
}

template <typename Kind>
void ConvolutionOp<Kind>::BackwardParams(const OpArgs& args) {
  Pieces pieces(args.scratch);
  const Scratch scratch = BackwardParamsScratch(&pieces);
  if (product_gradient_ != nullptr) {
    if (in_to_params_.needed()) in_to_params_.Run(&context_, args.in[0].data, scratch.input);
    const void* const x = in_to_params_.needed() ? scratch.input : args.in[0].data;
    return product_gradient_->Run(context_, static_cast<const BFloat16*>(x), DataOf<const BFloat16>(args.d_out[0]),
                                  args.accumulate, args.d_params[0], bias_ ? args.d_params[1] : nullptr,
                                  scratch.primitive);
  }
  // A gradient in Caffe's own layout that is not added to needs no detour.
  const bool direct = !gradient_reorder_.needed() && !args.accumulate;
  void* d_weights = direct ? static_cast<void*>(args.d_params[0]) : scratch.weights;
  std::unordered_map<int, memory> arguments = {
      {DNNL_ARG_SRC, In(params_ends_.src, args.in[0], in_to_params_, scratch.input)},
      {DNNL_ARG_DIFF_DST, In(params_ends_.dst, args.d_out[0], dst_to_params_, scratch.output)},
      {DNNL_ARG_DIFF_WEIGHTS, context_.Memory(backward_params_pd_.diff_weights_desc(), d_weights)},
      {DNNL_ARG_SCRATCHPAD, context_.Memory(backward_params_pd_.scratchpad_desc(), scratch.primitive)}};
  float* d_bias = nullptr;
  if (bias_) {
    d_bias = args.accumulate ? reinterpret_cast<float*>(scratch.bias) : args.d_params[1];
    arguments[DNNL_ARG_DIFF_BIAS] = context_.Memory(bias_desc_, d_bias);
  }
  context_.Execute(backward_params_, arguments);
  if (!direct) gradient_reorder_.Run(&context_, d_weights, args.d_params[0], args.accumulate);
  if (bias_ && args.accumulate) AddBias(d_bias, args.d_params[1]);
}

template <typename Kind>
void ConvolutionOp<Kind>::AddBias(const float* sum, float* d_bias) const {
  for (int64_t i = 0; i < num_output_; ++i) d_bias[i] += sum[i];
}

/// Where oneDNN has nothing but its reference for bfloat16, or nothing at all, an op of float32.
template <typename Kind>
StatusOr<Backend::OpPtr> MakeOp(const ConvolutionDesc& desc, ElementType element, const Backend::Descs& in) {
  std::unique_ptr<ConvolutionOp<Kind>> op;
  const auto make = [&](ElementType of, const TensorDesc& input) {
    return onednn::Guard(Kind::kName, [&] { op = std::make_unique<ConvolutionOp<Kind>>(desc, of, input); });
  };
  if (element != ElementType::kFloat32) {
    const Status made = make(element, in[0]);
    if (made.code() == StatusCode::kResourceExhausted) return made;
    if (made.ok() && !op->is_reference()) return Backend::OpPtr(std::move(op));
  }
  return OnFloat32(in, [&](const Backend::Descs& floats) -> StatusOr<Backend::OpPtr> {
    HP_RETURN_IF_ERROR(make(ElementType::kFloat32, floats[0]));
    return Backend::OpPtr(std::move(op));
  });
}

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Convolution(const ConvolutionDesc& desc, const Descs& in) {
  if (IsProduct(desc, in[0].shape)) {
    return MakeInnerProduct({.num_output = desc.num_output, .bias = desc.bias, .input_gradient = desc.input_gradient},
                            in, Shape{in[0].shape[0], desc.num_output, 1, 1}, factors_);
  }
  return MakeOp<Convolutions>(desc, factors_, in);
}

StatusOr<Backend::OpPtr> CpuBackend::Deconvolution(const ConvolutionDesc& desc, const Descs& in) {
  return MakeOp<Deconvolutions>(desc, factors_, in);
}

}  // namespace hp
