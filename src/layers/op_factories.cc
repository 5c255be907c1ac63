#include "layers/op_factories.h"

#include "layers/built_in_ops.h"

#include <algorithm>

namespace hp {

const OpFactories& OpFactories::BuiltIn() {
  static const OpFactories kFactories({
      {"AbsVal", MakeAbsValOp},
      {"Accuracy", MakeAccuracyOp},
      {"ArgMax", MakeArgMaxOp},
      {"BatchNorm", MakeBatchNormOp},
      {"Bias", MakeBiasOp},
      {"BNLL", MakeBnllOp},
      {"Clip", MakeClipOp},
      {"Concat", MakeConcatOp},
      {"Convolution", MakeConvolutionOp},
      {"Crop", MakeCropOp},
      {"Deconvolution", MakeDeconvolutionOp},
      {"Dropout", MakeDropoutOp},
      {"Eltwise", MakeEltwiseOp},
      {"ELU", MakeEluOp},
      {"Embed", MakeEmbedOp},
      {"ContrastiveLoss", MakeContrastiveLossOp},
      {"EuclideanLoss", MakeEuclideanLossOp},
      {"Exp", MakeExpOp},
      {"Flatten", MakeFlattenOp},
      {"HingeLoss", MakeHingeLossOp},
      {"Im2col", MakeIm2colOp},
      {"InfogainLoss", MakeInfogainLossOp},
      {"InnerProduct", MakeInnerProductOp},
      {"Log", MakeLogOp},
      {"LRN", MakeLrnOp},
      {"MultinomialLogisticLoss", MakeLogisticLossOp},
      {"MVN", MakeMvnOp},
      {"Pooling", MakePoolingOp},
      {"Power", MakePowerOp},
      {"PReLU", MakePreluOp},
      {"Reduction", MakeReductionOp},
      {"ReLU", MakeReluOp},
      {"Reshape", MakeFlattenOp},
      {"Scale", MakeScaleOp},
      {"Sigmoid", MakeSigmoidOp},
      {"Slice", MakeSliceOp},
      {"SigmoidCrossEntropyLoss", MakeSigmoidLossOp},
      {"Softmax", MakeSoftmaxOp},
      {"SoftmaxWithLoss", MakeSoftmaxLossOp},
      {"Split", MakeSplitOp},
      {"SPP", MakeSppOp},
      {"Swish", MakeSwishOp},
      {"TanH", MakeTanhOp},
      {"Threshold", MakeThresholdOp},
      {"Tile", MakeTileOp},
  });
  return kFactories;
}

OpFactories OpFactories::With(const std::string& type, OpFactory factory) const {
  std::vector<Entry> entries = entries_;
  std::erase_if(entries, [&](const Entry& entry) { return entry.type == type; });
  entries.push_back({type, factory});
  return OpFactories(std::move(entries));
}

StatusOr<std::unique_ptr<Op>> OpFactories::Create(const LayerTraits& layer, const OpContext& context,
                                                  const std::vector<TensorDesc>& in) const {
  const OpFactory factory = Find(layer.type());
  if (factory == nullptr) {
    return InternalError("layer \"%s\": no op factory for type %s", layer.name().c_str(), layer.type().c_str());
  }
  return factory(layer, context, in);
}

OpFactory OpFactories::Find(const std::string& type) const {
  for (const Entry& entry : entries_) {
    if (entry.type == type) return entry.factory;
  }
  return nullptr;
}

}  // namespace hp
