#include "layers/built_in_ops.h"
#include "proto/caffe.pb.h"

namespace hp {

/// y = x W^T + b, or with `normalize` the cosines, x flattened from `axis`; of a sample of the classes the columns that
/// SampledProductDesc says. A shard's op yields outputs [channel_begin,
/// channel_end) and may get its input in several blocks that stand side by side, or (OpContext::kAddends) only some of
/// it.
StatusOr<LayerOp> MakeInnerProductOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const caffe::InnerProductParameter& product = layer.param().inner_product_param();
  const int axis = in[0].shape.CanonicalAxis(product.axis());
  const bool normalize = product.normalize();
  // Of another axis than 1 no shard has a part: channels are those of axis 1.
  const int64_t outputs = product.axis() == 1 ? context.channel_end - context.channel_begin : product.num_output();
  if (context.sample_room > 0) {
    StatusOr<LayerOp> op = context.backend->SampledProduct({.num_output = outputs,
                                                            .room = context.sample_room,
                                                            .normalize = normalize,
                                                            .input_gradient = context.input_gradient},
                                                           in);
    if (!op.ok()) return op.status().Prepend("layer \"" + layer.name() + "\"");
    return op;
  }
  if (normalize) {
    return context.backend->CosineProduct({.num_output = outputs, .input_gradient = context.input_gradient}, in);
  }
  InnerProductDesc desc;
  desc.num_output = outputs;
  desc.axis = axis;
  desc.transposed = product.transpose();
  desc.bias = product.bias_term() && context.part != OpContext::kAddends;
  desc.input_gradient = context.input_gradient;
  return context.backend->InnerProduct(desc, in);
}

}  // namespace hp
