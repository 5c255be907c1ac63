#include "layers/built_in_ops.h"
#include "proto/caffe.pb.h"

namespace hp {

// y = f(x), element by element. `engine` chooses between Caffe's own code and cuDNN for the same function, so here,
// where there is one implementation, it has nothing to say.

StatusOr<LayerOp> MakeReluOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  return context.backend->Activation(
      {.kind = ActivationDesc::kRelu, .negative_slope = layer.param().relu_param().negative_slope()}, in);
}

StatusOr<LayerOp> MakeSigmoidOp(const LayerTraits&, const OpContext& context, const LayerInputs& in) {
  return context.backend->Activation({.kind = ActivationDesc::kSigmoid}, in);
}

StatusOr<LayerOp> MakeTanhOp(const LayerTraits&, const OpContext& context, const LayerInputs& in) {
  return context.backend->Activation({.kind = ActivationDesc::kTanh}, in);
}

}  // namespace hp
