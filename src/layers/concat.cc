#include "layers/built_in_ops.h"
#include "layers/traits/fields.h"
#include "proto/caffe.pb.h"

namespace hp {

/// Bottoms side by side along one axis (not along the rows, which belong to the division of the batch).
StatusOr<LayerOp> MakeConcatOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  return context.backend->Concat(in[0].shape.CanonicalAxis(ConcatAxis(layer.param().concat_param())), in);
}

}  // namespace hp
