#include "layers/built_in_ops.h"
#include "layers/traits/fields.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

ConvolutionDesc DescOf(const ConvolutionWindow& window) {
  ConvolutionDesc desc;
  desc.kernel_h = window.kernel.height, desc.kernel_w = window.kernel.width;
  desc.stride_h = window.stride.height, desc.stride_w = window.stride.width;
  desc.pad_h = window.pad.height, desc.pad_w = window.pad.width;
  desc.dilation_h = window.dilation.height, desc.dilation_w = window.dilation.width;
  return desc;
}

/// `engine` and `force_nd_im2col` choose between implementations of the same function: accepted.
StatusOr<ConvolutionDesc> DescOf(const LayerTraits& layer, const OpContext& context) {
  HP_ASSIGN_OR_RETURN(const ConvolutionFields fields, ReadConvolution(layer.param()));
  ConvolutionDesc desc = DescOf(fields.window);
  desc.num_output = fields.num_output;
  desc.group = fields.group;
  desc.bias = fields.bias;
  desc.input_gradient = context.input_gradient;
  return desc;
}

}  // namespace

/// 2-D convolution.
StatusOr<LayerOp> MakeConvolutionOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  HP_ASSIGN_OR_RETURN(const ConvolutionDesc desc, DescOf(layer, context));
  return context.backend->Convolution(desc, in);
}

/// 2-D deconvolution: what a convolution of the same fields does to gradients.
StatusOr<LayerOp> MakeDeconvolutionOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  HP_ASSIGN_OR_RETURN(const ConvolutionDesc desc, DescOf(layer, context));
  return context.backend->Deconvolution(desc, in);
}

/// What a convolution multiplies, window by window.
StatusOr<LayerOp> MakeIm2colOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  HP_ASSIGN_OR_RETURN(const ConvolutionWindow window, ReadIm2col(layer.param()));
  return context.backend->Im2col(DescOf(window), in);
}

}  // namespace hp
