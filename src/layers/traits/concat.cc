#include "layers/traits/built_in_types.h"
#include "layers/traits/common_checks.h"
#include "layers/traits/errors.h"
#include "layers/traits/fields.h"
#include "proto/caffe.pb.h"

namespace hp {

int ConcatAxis(const caffe::ConcatParameter& param) {
  return param.has_concat_dim() ? static_cast<int>(param.concat_dim()) : param.axis();
}

namespace {

Status CheckConcat(const caffe::LayerParameter& param) {
  if (param.concat_param().has_axis() && param.concat_param().has_concat_dim()) {
    return LayerError(param, "concat_param has both axis and concat_dim; give one");
  }
  if (param.concat_param().concat_dim() > static_cast<uint32_t>(kMostAxes)) {
    return LayerError(param, "concat_param { concat_dim: %u }: expected an axis, 1 or more",
                      param.concat_param().concat_dim());
  }
  return OkStatus();
}

StatusOr<std::vector<Shape>> ConcatShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  const int given = ConcatAxis(param.concat_param()), axis = in[0].CanonicalAxis(given);
  if (axis < 0 || axis >= in[0].rank()) {
    return LayerError(param, "axis %d does not fit bottom shape [%s]", given, in[0].ToString().c_str());
  }
  if (axis == 0) return LayerError(param, "concatenation along axis 0, the rows, is not supported");
  int64_t sum = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].rank() != in[0].rank() || in[i].With(axis, 1) != in[0].With(axis, 1)) {
      return LayerError(param, "bottom %zu has shape [%s], bottom 0 [%s]; only axis %d may differ", i,
                        in[i].ToString().c_str(), in[0].ToString().c_str(), axis);
    }
    sum += in[i][axis];
  }
  return std::vector<Shape>{in[0].With(axis, sum)};
}

}  // namespace

LayerType ConcatType() {
  return {.name = "Concat",
          .fields = {"concat_param"},
          .bottoms = {1, kAnyNumber},
          .check = CheckConcat,
          .output_shapes = ConcatShapes};
}

}  // namespace hp
