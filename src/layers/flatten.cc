#include "layers/built_in_ops.h"

namespace hp {

/// Flatten, and Reshape, which has other shapes.
StatusOr<LayerOp> MakeFlattenOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  HP_ASSIGN_OR_RETURN(const std::vector<Shape> out, layer.OutputShapes({in[0].shape}));
  return context.backend->Flatten(out[0], in);
}

}  // namespace hp
