#pragma once

#include "layers/op_factories.h"

namespace hp {

// The factories of OpFactories::BuiltIn(), each of type OpFactory (op_factories.h, which says what they take and
// return) and in the file of its layer; related types share a file. `in` never includes labels. Errors are the
// backend's.

using LayerInputs = std::vector<TensorDesc>;
using LayerOp = std::unique_ptr<Op>;

StatusOr<LayerOp> MakeAbsValOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeAccuracyOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeArgMaxOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeBatchNormOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeBiasOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeBnllOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeClipOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeConcatOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeConvolutionOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeCropOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeDeconvolutionOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeDropoutOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeEltwiseOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeEluOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeEmbedOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeContrastiveLossOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeEuclideanLossOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeExpOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeFlattenOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeHingeLossOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeIm2colOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeInfogainLossOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeInnerProductOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeLogOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeLogisticLossOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeLrnOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeMvnOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakePoolingOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakePowerOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakePreluOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeReductionOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeReluOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeScaleOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeSigmoidLossOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeSigmoidOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeSliceOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeSoftmaxOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeSoftmaxLossOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeSplitOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeSppOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeSwishOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeTanhOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeThresholdOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);
StatusOr<LayerOp> MakeTileOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in);

}  // namespace hp
