#include "base/philox.h"
#include "layers/built_in_ops.h"
#include "layers/traits/own_phase.h"
#include "proto/caffe.pb.h"

#include "glog/logging.h"

namespace hp {

/// Dropout with inverted scaling: units are dropped and the rest scaled by 1 / (1 - ratio) in training; a test passes
/// its input on. Units are numbered within the whole layer, so that the mask does not depend on how it is sliced.
/// Source: Srivastava et al., JMLR 15 (2014); the scaling is Caffe's.
StatusOr<LayerOp> MakeDropoutOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const Shape& shape = in[0].shape;
  const int64_t units_per_channel = shape.count(2);
  DropoutDesc desc;
  desc.ratio = layer.param().dropout_param().dropout_ratio();
  desc.stream_key = StreamKey(context.seed, layer.name(), "dropout");
  desc.total_units = shape.count(1);
  desc.train = OwnPhase(layer.param());
  if (context.channel_count > 0) {
    CHECK_EQ(context.channel_end - context.channel_begin, shape[1]) << "slice of layer " << layer.name();
    desc.first_unit = context.channel_begin * units_per_channel;
    desc.total_units = context.channel_count * units_per_channel;
  }
  return context.backend->Dropout(desc, in);
}

}  // namespace hp
