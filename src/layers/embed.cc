#include "layers/built_in_ops.h"
#include "proto/caffe.pb.h"

namespace hp {

/// All of the table is on one node.
StatusOr<LayerOp> MakeEmbedOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const caffe::EmbedParameter& embed = layer.param().embed_param();
  return context.backend->Embed(
      {.rows = embed.input_dim(), .num_output = embed.num_output(), .bias = embed.bias_term()}, in);
}

}  // namespace hp
