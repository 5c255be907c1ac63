#include "layers/built_in_ops.h"
#include "layers/traits/fields.h"
#include "proto/caffe.pb.h"

namespace hp {

/// use_global_stats: false in a test is what a test does with Caffe's default: it takes the averages. Its own rows'
/// statistics would depend on how a test is divided.
StatusOr<LayerOp> MakeBatchNormOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const caffe::BatchNormParameter& norm = layer.param().batch_norm_param();
  BatchNormDesc desc;
  desc.eps = norm.eps();
  desc.keep = context.average_keeps.value_or(norm.moving_average_fraction());
  desc.share = context.average_share;
  desc.global = UsesGlobalStats(layer.param());
  return context.part == OpContext::kMoments ? context.backend->Moments(desc, in)
                                             : context.backend->BatchNorm(desc, in);
}

}  // namespace hp
