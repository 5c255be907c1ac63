#include "layers/traits/built_in_types.h"
#include "layers/traits/errors.h"
#include "layers/traits/own_phase.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

Status CheckDropout(const caffe::LayerParameter& param) {
  const float ratio = param.dropout_param().dropout_ratio();
  if (!(ratio >= 0 && ratio <= 1)) return LayerError(param, "dropout_ratio %g is not in [0, 1)", ratio);
  if (OwnPhase(param).value_or(false)) HP_RETURN_IF_ERROR(CheckTrains(param));
  if (!param.dropout_param().scale_train()) {
    return LayerError(param, "scale_train: false (scaling at test time instead of in training) is not supported");
  }
  return OkStatus();
}

StatusOr<std::vector<Shape>> DropoutShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  if (in[0].rank() < 2) {
    return LayerError(param, "bottom has shape [%s]; expected [rows, units...]", in[0].ToString().c_str());
  }
  return in;
}

}  // namespace

LayerType DropoutType() {
  return {.name = "Dropout",
          .fields = {"dropout_param"},
          .channel_use = ChannelUse::kElementwise,
          .in_place = true,
          .check = CheckDropout,
          .output_shapes = DropoutShapes};
}

}  // namespace hp
