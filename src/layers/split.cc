#include "layers/built_in_ops.h"
#include "proto/caffe.pb.h"

namespace hp {

/// One bottom for several readers: the tops are its memory, and their gradients are added in the order of the tops.
StatusOr<LayerOp> MakeSplitOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  return context.backend->Split(layer.param().top_size(), in);
}

}  // namespace hp
