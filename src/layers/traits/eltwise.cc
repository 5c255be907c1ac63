#include "layers/traits/built_in_types.h"
#include "layers/traits/errors.h"
#include "proto/caffe.pb.h"

#include <algorithm>

namespace hp {
namespace {

Status CheckEltwise(const caffe::LayerParameter& param) {
  const caffe::EltwiseParameter& eltwise = param.eltwise_param();
  if (eltwise.coeff_size() > 0 && eltwise.operation() == caffe::EltwiseParameter::PROD) {
    return LayerError(param, "coeff is for operation SUM, not PROD");
  }
  if (eltwise.coeff_size() > 0 && eltwise.coeff_size() != param.bottom_size()) {
    return LayerError(param, "has %d coeff values for %d bottoms", eltwise.coeff_size(), param.bottom_size());
  }
  return OkStatus();
}

StatusOr<std::vector<Shape>> EltwiseShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  for (size_t i = 1; i < in.size(); ++i) {
    if (in[i] == in[0]) continue;
    return LayerError(param, "bottom %zu has shape [%s], bottom 0 [%s]; they must be equal", i,
                      in[i].ToString().c_str(), in[0].ToString().c_str());
  }
  return std::vector<Shape>{in[0]};
}

bool IsPlainSum(const caffe::LayerParameter& param) {
  const caffe::EltwiseParameter& eltwise = param.eltwise_param();
  const auto& coeff = eltwise.coeff();
  return eltwise.operation() == caffe::EltwiseParameter::SUM &&
         std::all_of(coeff.begin(), coeff.end(), [](float factor) { return factor == 1; });
}

}  // namespace

LayerType EltwiseType() {
  return {.name = "Eltwise",
          .fields = {"eltwise_param"},
          .bottoms = {2, kAnyNumber},
          .channel_use = ChannelUse::kElementwise,
          .check = CheckEltwise,
          .output_shapes = EltwiseShapes,
          .passes_gradient = IsPlainSum};
}

}  // namespace hp
