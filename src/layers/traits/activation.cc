#include "layers/traits/built_in_types.h"
#include "layers/traits/errors.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// The gradient is found from the output, whose sign is the input's only for slopes that are not negative.
Status CheckRelu(const caffe::LayerParameter& param) {
  const float slope = param.relu_param().negative_slope();
  if (slope >= 0) return OkStatus();
  return LayerError(param, "negative_slope %g is not supported; it must be 0 or more", slope);
}

StatusOr<std::vector<Shape>> ActivationShapes(const caffe::LayerParameter&, const std::vector<Shape>& in) { return in; }

/// y = f(x), element by element.
LayerType Activation(const char* name, const char* field) {
  return {.name = name,
          .fields = {field},
          .channel_use = ChannelUse::kElementwise,
          .in_place = true,
          .output_shapes = ActivationShapes};
}

}  // namespace

LayerType ReluType() {
  LayerType type = Activation("ReLU", "relu_param");
  type.check = CheckRelu;
  return type;
}
LayerType SigmoidType() { return Activation("Sigmoid", "sigmoid_param"); }
LayerType TanhType() { return Activation("TanH", "tanh_param"); }

}  // namespace hp
