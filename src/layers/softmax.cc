#include "layers/built_in_ops.h"
#include "proto/caffe.pb.h"

namespace hp {

/// y = exp(x) / sum of exp(x) along one axis. `engine` chooses between implementations of the same function: accepted.
StatusOr<LayerOp> MakeSoftmaxOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  if (context.part == OpContext::kClasses)
    return context.backend->ClassStatistics(context.classes(), false, std::nullopt, in);
  if (context.part == OpContext::kMerged) return context.backend->SlicedSoftmax(in);
  return context.backend->Softmax(in[0].shape.CanonicalAxis(layer.param().softmax_param().axis()), in);
}

}  // namespace hp
