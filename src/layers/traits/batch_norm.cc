#include "layers/traits/built_in_types.h"
#include "layers/traits/errors.h"
#include "layers/traits/fields.h"
#include "layers/traits/own_phase.h"
#include "proto/caffe.pb.h"

#include <cmath>

namespace hp {
namespace {

/// A file of Caffe's freezes the three blobs, which no gradient changes: lr_mult: 0. Any other value would be one that
/// nobody uses.
Status CheckSpecs(const caffe::LayerParameter& param) {
  for (const caffe::ParamSpec& spec : param.param()) {
    if (spec.lr_mult() == 0) continue;
    return LayerError(param, "param { lr_mult: %g }: the blobs of a BatchNorm are statistics; expected lr_mult: 0",
                      spec.lr_mult());
  }
  return OkStatus();
}

Status CheckBatchNorm(const caffe::LayerParameter& param) {
  const caffe::BatchNormParameter& norm = param.batch_norm_param();
  if (!(norm.eps() >= 0) || std::isinf(norm.eps())) {
    return LayerError(param, "batch_norm_param { eps: %g }: expected a finite number of at least 0", norm.eps());
  }
  const float fraction = norm.moving_average_fraction();
  if (!(fraction >= 0 && fraction <= 1)) {
    return LayerError(param, "batch_norm_param { moving_average_fraction: %g }: expected a number from 0 to 1",
                      fraction);
  }
  return CheckSpecs(param);
}

StatusOr<std::vector<Shape>> BatchNormShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  if (in[0].rank() >= 2) return in;
  return LayerError(param, "bottom shape [%s] does not fit; expected [rows, channels, ...]", in[0].ToString().c_str());
}

float AverageKeeps(const caffe::LayerParameter& param) { return param.batch_norm_param().moving_average_fraction(); }

/// Sums of the channels' means and variances, and the sum of their weights.
std::vector<ParamSpec> BatchNormParams(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  const Shape channels{in[0].dim(1)};
  std::vector<ParamSpec> specs(3);
  for (ParamSpec& spec : specs) {
    spec.shape = channels;
    spec.average_keeps = AverageKeeps(param);
  }
  specs[2].shape = Shape{1};
  return specs;
}

bool UsesBatchStatistics(const caffe::LayerParameter& param) { return !UsesGlobalStats(param); }

}  // namespace

bool UsesGlobalStats(const caffe::LayerParameter& param) {
  const caffe::BatchNormParameter& norm = param.batch_norm_param();
  return norm.has_use_global_stats() ? norm.use_global_stats() : !OwnPhase(param).value_or(true);
}

LayerType BatchNormType() {
  return {.name = "BatchNorm",
          .fields = {"batch_norm_param"},
          .in_place = true,
          .small_blobs = true,
          .check = CheckBatchNorm,
          .output_shapes = BatchNormShapes,
          .most_blobs = 3,
          .params = BatchNormParams,
          .batch_statistics = UsesBatchStatistics,
          .average_keeps = AverageKeeps};
}

}  // namespace hp
