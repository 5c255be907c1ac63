#include "layers/traits/own_phase.h"

#include "layers/traits/errors.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// Whether it is a stochastic pooling.
bool Draws(const caffe::LayerParameter& param) {
  if (param.type() == "Pooling") return param.pooling_param().pool() == caffe::PoolingParameter::STOCHASTIC;
  return param.type() == "SPP" && param.spp_param().pool() == caffe::SPPParameter::STOCHASTIC;
}

}  // namespace

std::optional<bool> OwnPhase(const caffe::LayerParameter& param) {
  return param.has_phase() ? std::optional(param.phase() == caffe::TRAIN) : std::nullopt;
}

bool OwnPhaseMatters(const caffe::LayerParameter& param) {
  const std::string& type = param.type();
  if (type == "Dropout") return true;
  if (type == "BatchNorm") return !param.batch_norm_param().has_use_global_stats();
  if (type == "Data" || type == "ImageData") return param.transform_param().crop_size() > 0;
  return Draws(param);
}

Status CheckTrains(const caffe::LayerParameter& param) {
  const bool trains = OwnPhase(param).value_or(true);
  if (param.type() == "Dropout" && trains && param.dropout_param().dropout_ratio() == 1) {
    return LayerError(param, "dropout_ratio 1 is not in [0, 1): in training it would drop all values");
  }
  if (!Draws(param) || trains) return OkStatus();
  return LayerError(
      param,
      "phase: TEST with pool: STOCHASTIC: in training no value is drawn then, and none gets the gradient; "
      "expected no phase, or include { phase: TEST }");
}

}  // namespace hp
