#include "layers/built_in_ops.h"
#include "proto/caffe.pb.h"

namespace hp {

/// Local response normalisation. `k` plays no part in WITHIN_CHANNEL, as in Caffe. `engine` chooses between
/// implementations of the same function: accepted.
StatusOr<LayerOp> MakeLrnOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const caffe::LRNParameter& lrn = layer.param().lrn_param();
  LrnDesc desc;
  if (lrn.norm_region() == caffe::LRNParameter::WITHIN_CHANNEL) desc.region = LrnDesc::kWithinChannel;
  desc.local_size = lrn.local_size();
  desc.alpha = lrn.alpha();
  desc.beta = lrn.beta();
  desc.k = lrn.k();
  return context.backend->Lrn(desc, in);
}

}  // namespace hp
