#include "layers/built_in_ops.h"
#include "proto/caffe.pb.h"

namespace hp {

/// y = x W^T + b, or with `normalize` the cosines, x flattened from axis 1. A shard's op yields outputs [channel_begin,
/// channel_end) and may get its input in several blocks that stand side by side, or (OpContext::kAddends) only some of
/// it.
StatusOr<LayerOp> MakeInnerProductOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  if (layer.param().inner_product_param().normalize()) {
    return context.backend->CosineProduct(
        {.num_output = context.channel_end - context.channel_begin, .input_gradient = context.input_gradient}, in);
  }
  InnerProductDesc desc;
  desc.num_output = context.channel_end - context.channel_begin;
  desc.bias = layer.param().inner_product_param().bias_term() && context.part != OpContext::kAddends;
  desc.input_gradient = context.input_gradient;
  return context.backend->InnerProduct(desc, in);
}

}  // namespace hp
