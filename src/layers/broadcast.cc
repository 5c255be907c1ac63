// y = f(x, p), p being a parameter, or a second bottom, of many elements.
#include "layers/built_in_ops.h"
#include "layers/traits/broadcast_axes.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

std::vector<Shape> ShapesOf(const LayerInputs& in) {
  std::vector<Shape> shapes;
  for (const TensorDesc& desc : in) shapes.push_back(desc.shape);
  return shapes;
}

}  // namespace

StatusOr<LayerOp> MakeBiasOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  HP_ASSIGN_OR_RETURN(const BroadcastAxes axes, BiasAxes(layer.param(), ShapesOf(in)));
  return context.backend->Broadcast(
      {.function = broadcast::Sum{}, .axis_begin = axes.begin, .axis_end = axes.end, .bias = false}, in);
}

StatusOr<LayerOp> MakePreluOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const int end = layer.param().prelu_param().channel_shared() ? 1 : 2;
  return context.backend->Broadcast({.function = broadcast::Prelu{}, .axis_begin = 1, .axis_end = end, .bias = false},
                                    in);
}

StatusOr<LayerOp> MakeScaleOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const bool bias = layer.param().scale_param().bias_term();
  if (context.part == OpContext::kScaled) return context.backend->ScaledNorm(bias, in);
  HP_ASSIGN_OR_RETURN(const BroadcastAxes axes, ScaleAxes(layer.param(), ShapesOf(in)));
  return context.backend->Broadcast(
      {.function = broadcast::Product{}, .axis_begin = axes.begin, .axis_end = axes.end, .bias = bias}, in);
}

}  // namespace hp
