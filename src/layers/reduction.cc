// Layers that compute numbers of a row or of a part of it.
#include "layers/built_in_ops.h"
#include "layers/traits/ranked_axis.h"
#include "proto/caffe.pb.h"

namespace hp {

/// The largest elements, where they stand or what they are.
StatusOr<LayerOp> MakeArgMaxOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const caffe::ArgMaxParameter& argmax = layer.param().argmax_param();
  HP_ASSIGN_OR_RETURN(const RankedAxis ranked, RankedAxisOf(layer.param(), in[0].shape));
  HP_ASSIGN_OR_RETURN(const std::vector<Shape> out, layer.OutputShapes({in[0].shape}));
  return context.backend->ArgMax({.width = ranked.width,
                                  .inner = ranked.inner,
                                  .top_k = argmax.top_k(),
                                  .indices = !argmax.out_max_val() || !argmax.has_axis(),
                                  .values = argmax.out_max_val()},
                                 out[0], in);
}

StatusOr<LayerOp> MakeMvnOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const caffe::MVNParameter& mvn = layer.param().mvn_param();
  return context.backend->Mvn(
      {.normalize_variance = mvn.normalize_variance(), .across_channels = mvn.across_channels(), .eps = mvn.eps()}, in);
}

namespace {

ReductionRule::Operation OperationOf(const caffe::ReductionParameter& reduction) {
  if (reduction.operation() == caffe::ReductionParameter::ASUM) return ReductionRule::kAbsSum;
  return reduction.operation() == caffe::ReductionParameter::SUMSQ ? ReductionRule::kSquareSum : ReductionRule::kSum;
}

}  // namespace

/// Sums over the last axes, or over a whole batch. A mean is a sum of which each term has its share.
StatusOr<LayerOp> MakeReductionOp(const LayerTraits& layer, const OpContext& context, const LayerInputs& in) {
  const caffe::ReductionParameter& reduction = layer.param().reduction_param();
  const bool mean = reduction.operation() == caffe::ReductionParameter::MEAN;
  if (layer.is_statistic()) {
    return context.backend->ElementLoss({.function = loss::Term{{OperationOf(reduction)}, reduction.coeff()},
                                         .targets = ElementLossDesc::kNone,
                                         .per_sample = mean ? in[0].shape.count(1) : 0,
                                         .loss_weight = layer.loss_weight(0)},
                                        {in[0]});
  }
  ReductionDesc desc;
  desc.axis = in[0].shape.CanonicalAxis(reduction.axis());
  desc.coeff = reduction.coeff();
  desc.operation = OperationOf(reduction);
  if (mean) desc.coeff /= static_cast<float>(in[0].shape.count(desc.axis));
  return context.backend->Reduction(desc, in);
}

}  // namespace hp
