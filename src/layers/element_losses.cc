// Losses that are a sum over elements, or over rows of distances.
#include "layers/built_in_ops.h"
#include "layers/traits/fields.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// Labels are no input.
ElementLossDesc::Targets TargetsOf(const LayerInputs& in) {
  return in.size() > 1 ? ElementLossDesc::kInput : ElementLossDesc::kLabels;
}

/// Both in the shape of the first: where shapes differ, both are dense (LayerTraits::pairs_elements).
LayerInputs Paired(LayerInputs in) {
  if (in.size() < 2 || in[0].shape == in[1].shape) return in;
  in[1] = {in[0].shape, 1, in[1].element};
  in[0].channel_block = 1;
  return in;
}

}  // namespace

/// Labels are no input, and a tensor in their place is.
StatusOr<LayerOp> MakeContrastiveLossOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const caffe::ContrastiveLossParameter& param = layer.param().contrastive_loss_param();
  return context.backend->ContrastiveLoss({{param.margin(), param.legacy_version()}, layer.loss_weight(0)}, in);
}

/// Half the sum of squared differences, for each sample.
StatusOr<LayerOp> MakeEuclideanLossOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  return context.backend->ElementLoss(
      {.function = loss::SquaredError{}, .targets = TargetsOf(in), .loss_weight = layer.loss_weight(0)}, Paired(in));
}

/// One class against all others; squares of it with L2.
StatusOr<LayerOp> MakeHingeLossOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  ElementLossDesc desc = {
      .function = loss::Hinge<false>{}, .targets = ElementLossDesc::kClasses, .loss_weight = layer.loss_weight(0)};
  if (layer.param().hinge_loss_param().norm() == caffe::HingeLossParameter::L2) desc.function = loss::Hinge<true>{};
  return context.backend->ElementLoss(desc, {in[0]});
}

/// The bottom is probabilities already.
StatusOr<LayerOp> MakeLogisticLossOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  return context.backend->ElementLoss(
      {.function = loss::Logistic{}, .targets = ElementLossDesc::kClasses, .loss_weight = layer.loss_weight(0)},
      {in[0]});
}

StatusOr<LayerOp> MakeSigmoidLossOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const caffe::LossParameter& loss_param = layer.param().loss_param();
  const loss::SigmoidCrossEntropy function = {.ignores = loss_param.has_ignore_label(),
                                              .ignored = loss_param.ignore_label()};
  ElementLossDesc desc = {.function = function, .targets = TargetsOf(in), .loss_weight = layer.loss_weight(0)};
  switch (SigmoidLossNormalization(loss_param)) {
    case LossNormalization::kValid:
      desc.counted = layer.needs_batch_labels();
      [[fallthrough]];
    case LossNormalization::kFull:
      desc.per_sample = in[0].shape.count(1);
      break;
    case LossNormalization::kBatchSize:
      desc.per_sample = 1;
      break;
    case LossNormalization::kNone:
      desc.per_sample = 0;
      break;
  }
  return context.backend->ElementLoss(desc, Paired(in));
}

}  // namespace hp
