#include "layers/traits/built_in_types.h"
#include "layers/traits/errors.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

Shape ShapeOf(const caffe::LayerParameter& param) {
  const auto& dims = param.parameter_param().shape().dim();
  return Shape(std::vector<int64_t>(dims.begin(), dims.end()));
}

Status CheckParameter(const caffe::LayerParameter& param) {
  const Shape shape = ShapeOf(param);
  if (param.loss_weight_size() > 0) return LayerError(param, "a Parameter with a loss_weight is not supported");
  if (shape.rank() > 0 && shape.InBounds() && shape.count() > 0) return OkStatus();
  return LayerError(param, "parameter_param { shape } is [%s]; expected dims of at least 1", shape.ToString().c_str());
}

StatusOr<std::vector<Shape>> ParameterShapes(const caffe::LayerParameter& param, const std::vector<Shape>&) {
  return std::vector<Shape>{ShapeOf(param)};
}

std::vector<ParamSpec> ParameterParams(const caffe::LayerParameter& param, const std::vector<Shape>&) {
  std::vector<ParamSpec> specs(1);
  specs[0].shape = ShapeOf(param);
  return specs;
}

}  // namespace

/// It is held by the layer that reads it (net/plan/held_parameters.h).
LayerType ParameterType() {
  return {.name = "Parameter",
          .fields = {"parameter_param"},
          .bottoms = {0, 0},
          .discards = true,
          .parameter = true,
          .check = CheckParameter,
          .output_shapes = ParameterShapes,
          .most_blobs = 1,
          .params = ParameterParams};
}

}  // namespace hp
