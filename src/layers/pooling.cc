#include "base/philox.h"
#include "layers/built_in_ops.h"
#include "layers/traits/fields.h"
#include "layers/traits/own_phase.h"
#include "proto/caffe.pb.h"

namespace hp {

/// Maximum, average or one drawn value of windows.
/// `engine` chooses between implementations of the same function: accepted.
StatusOr<LayerOp> MakePoolingOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  HP_ASSIGN_OR_RETURN(const PoolingFields fields, ReadPooling(layer.param()));
  PoolingDesc desc;
  if (fields.method == PoolingFields::kAve) desc.method = PoolingDesc::kAve;
  if (fields.method == PoolingFields::kStochastic) {
    desc.method = PoolingDesc::kStochastic;
    desc.stream_key = StreamKey(context.seed, layer.name(), "pooling");
    desc.train = OwnPhase(layer.param());
  }
  desc.kernel_h = fields.kernel.height, desc.kernel_w = fields.kernel.width;
  desc.stride_h = fields.stride.height, desc.stride_w = fields.stride.width;
  desc.pad_h = fields.pad.height, desc.pad_w = fields.pad.width;
  desc.global = fields.global;
  desc.ceil = fields.ceil;
  return context.backend->Pooling(desc, in);
}

}  // namespace hp
