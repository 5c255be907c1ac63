#include "layers/built_in_ops.h"
#include "layers/traits/fields.h"
#include "proto/caffe.pb.h"

namespace hp {

/// 2-D convolution. `engine` and `force_nd_im2col` choose between implementations of the same function: accepted.
StatusOr<LayerOp> MakeConvolutionOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  HP_ASSIGN_OR_RETURN(const ConvolutionFields fields, ReadConvolution(layer.param()));
  ConvolutionDesc desc;
  desc.num_output = fields.num_output;
  desc.group = fields.group;
  desc.kernel_h = fields.kernel.height, desc.kernel_w = fields.kernel.width;
  desc.stride_h = fields.stride.height, desc.stride_w = fields.stride.width;
  desc.pad_h = fields.pad.height, desc.pad_w = fields.pad.width;
  desc.dilation_h = fields.dilation.height, desc.dilation_w = fields.dilation.width;
  desc.bias = fields.bias;
  desc.input_gradient = context.input_gradient;
  return context.backend->Convolution(desc, in);
}

}  // namespace hp
