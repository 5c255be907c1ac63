#include "layers/traits/built_in_types.h"
#include "layers/traits/common_checks.h"
#include "layers/traits/errors.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// One axis of axes [axis, end_axis], in NCHW order whatever the layout is.
StatusOr<std::vector<Shape>> FlattenShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  const Shape& shape = in[0];
  const caffe::FlattenParameter& flatten = param.flatten_param();
  const int begin = shape.CanonicalAxis(flatten.axis()), end = shape.CanonicalAxis(flatten.end_axis());
  if (begin < 1 || end < begin || end >= shape.rank()) {
    return LayerError(param,
                      "flatten_param { axis: %d end_axis: %d } does not fit bottom shape [%s]; expected 1 or "
                      "more (axis 0 is the batch), and axis not after end_axis",
                      flatten.axis(), flatten.end_axis(), shape.ToString().c_str());
  }
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().begin() + begin);
  dims.push_back(shape.count(begin, end + 1));
  dims.insert(dims.end(), shape.dims().begin() + end + 1, shape.dims().end());
  return std::vector<Shape>{Shape(dims)};
}

}  // namespace

LayerType FlattenType() {
  return {.name = "Flatten",
          .fields = {"flatten_param"},
          .view = true,
          .output_shapes = FlattenShapes,
          .elements = AllElements};
}

}  // namespace hp
