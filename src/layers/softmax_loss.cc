#include "layers/built_in_ops.h"
#include "layers/traits/fields.h"
#include "proto/caffe.pb.h"

#include <optional>

namespace hp {
namespace {

SoftmaxLossDesc::Normalization DescOf(LossNormalization normalization) {
  switch (normalization) {
    case LossNormalization::kFull:
      return SoftmaxLossDesc::kFull;
    case LossNormalization::kValid:
      return SoftmaxLossDesc::kValid;
    case LossNormalization::kBatchSize:
      return SoftmaxLossDesc::kBatchSize;
    case LossNormalization::kNone:
      return SoftmaxLossDesc::kNone;
  }
  return SoftmaxLossDesc::kValid;
}

std::optional<MarginDesc> MarginOf(const caffe::LayerParameter& param) {
  if (!param.has_margin_param()) return std::nullopt;
  const caffe::MarginParameter& margin = param.margin_param();
  return MarginDesc{.scale = margin.scale(), .angle = margin.angle(), .cosine = margin.cosine()};
}

/// What both losses read of their layers alike.
SoftmaxLossDesc CommonDesc(const LayerTraits& layer) {
  SoftmaxLossDesc desc;
  desc.normalization = DescOf(NormalizationOf(layer.param().loss_param()));
  desc.has_ignore_label = layer.ignore_label().has_value();
  desc.ignore_label = layer.ignore_label().value_or(desc.ignore_label);
  desc.loss_weight = layer.loss_weight(0);
  desc.probabilities = layer.param().top_size() > 1;
  return desc;
}

}  // namespace

/// Top 0 and 1 as of a SoftmaxWithLoss.
StatusOr<LayerOp> MakeInfogainLossOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const std::span<const float> matrix = InfogainMatrix(layer.param());
  SoftmaxLossDesc desc = CommonDesc(layer);
  desc.axis = in[0].shape.CanonicalAxis(layer.param().infogain_loss_param().axis());
  return context.backend->InfogainLoss({desc, {matrix.begin(), matrix.end()}}, {in[0]});
}

/// Multinomial logistic loss of a softmax: top 0 is these rows' contribution to the normalised loss, not weighted;
/// a second top, where there is one, is the softmax.
StatusOr<LayerOp> MakeSoftmaxLossOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  SoftmaxLossDesc desc = CommonDesc(layer);
  desc.margin = MarginOf(layer.param());
  if (context.sample_room > 0) desc.sample_of = context.channel_count;
  if (context.part == OpContext::kClasses) {
    return context.backend->ClassStatistics(context.classes(), true, desc.margin, in);
  }
  if (context.part == OpContext::kJoined) return context.backend->JoinedStatistics(context.classes(), in);
  if (context.part == OpContext::kMerged) return context.backend->SlicedSoftmaxLoss(desc, context.classes(), in);
  desc.axis = in[0].shape.CanonicalAxis(layer.param().softmax_param().axis());
  return context.backend->SoftmaxLoss(desc, {in[0]});
}

}  // namespace hp
