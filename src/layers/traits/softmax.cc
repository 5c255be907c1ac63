#include "layers/traits/built_in_types.h"
#include "layers/traits/errors.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

StatusOr<std::vector<Shape>> SoftmaxShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  const int axis = in[0].CanonicalAxis(param.softmax_param().axis());
  if (axis < 1 || axis >= in[0].rank()) {
    return AxisError(param, "softmax_param { axis", param.softmax_param().axis(), in[0]);
  }
  return in;
}

/// The largest x and the sum of exponentials. Forward only: FindCuts.
std::optional<ClassSplit> SoftmaxClassSplit(const caffe::LayerParameter& param) {
  if (param.softmax_param().axis() != 1) return std::nullopt;
  return ClassSplit{.numbers = 2};
}

}  // namespace

LayerType SoftmaxType() {
  return {.name = "Softmax",
          .fields = {"softmax_param"},
          .in_place = true,
          .output_shapes = SoftmaxShapes,
          .class_split = SoftmaxClassSplit};
}

}  // namespace hp
