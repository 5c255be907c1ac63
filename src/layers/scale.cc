#include "layers/built_in_ops.h"
#include "layers/traits/scaled_axes.h"
#include "proto/caffe.pb.h"

namespace hp {

/// y = x f (+ b), f learned or the second bottom.
StatusOr<LayerOp> MakeScaleOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  std::vector<Shape> shapes;
  for (const TensorDesc& desc : in) shapes.push_back(desc.shape);
  HP_ASSIGN_OR_RETURN(const ScaledAxes axes, ScaledAxesOf(layer.param(), shapes));
  return context.backend->Scale(
      {.axis_begin = axes.begin, .axis_end = axes.end, .bias = layer.param().scale_param().bias_term()}, in);
}

}  // namespace hp
