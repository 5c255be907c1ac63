// Scale, Bias and PReLU: a parameter, or a second bottom, for many elements each.
#include "base/format.h"
#include "layers/traits/broadcast_axes.h"
#include "layers/traits/built_in_types.h"
#include "layers/traits/errors.h"
#include "layers/traits/filler_check.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// The axes as a prototxt gives them. @param message "scale_param", for messages.
struct AxesFields {
  const char* message;
  int axis, num_axes;
};

AxesFields FieldsOfScale(const caffe::LayerParameter& param) {
  return {"scale_param", param.scale_param().axis(), param.scale_param().num_axes()};
}
AxesFields FieldsOfBias(const caffe::LayerParameter& param) {
  return {"bias_param", param.bias_param().axis(), param.bias_param().num_axes()};
}

/// Of a layer with two bottoms.
Status NotOfRows(const caffe::LayerParameter& param, const AxesFields& fields) {
  return LayerError(param,
                    "%s { axis: %d } with two bottoms is not supported: axis 0 of both are rows; expected axis: 0",
                    fields.message, fields.axis);
}

Status CheckAxes(const caffe::LayerParameter& param, const AxesFields& fields) {
  if (fields.num_axes < -1) {
    return LayerError(param, "%s { num_axes: %d }: expected -1 (all behind axis) or more", fields.message,
                      fields.num_axes);
  }
  const bool learned = param.bottom_size() == 1;
  if (learned && fields.axis == 0) {
    return LayerError(param,
                      "%s { axis: 0 } would learn a number for each row of a batch; expected axis 1 or more, or a "
                      "second bottom with the numbers",
                      fields.message);
  }
  return learned || fields.axis <= 0 ? OkStatus() : NotOfRows(param, fields);
}

StatusOr<BroadcastAxes> AxesOf(const caffe::LayerParameter& param, const AxesFields& fields,
                               const std::vector<Shape>& in) {
  const int rank = in[0].rank();
  if (fields.axis > rank || (in.size() == 1 && fields.num_axes > rank)) {  // sums of them might overflow
    return LayerError(param, "%s { axis: %d num_axes: %d } does not fit the bottom's shape [%s]", fields.message,
                      fields.axis, fields.num_axes, in[0].ToString().c_str());
  }
  BroadcastAxes axes;
  axes.begin = fields.axis < 0 ? fields.axis + rank : fields.axis;
  if (in.size() > 1) {
    axes.end = axes.begin + in[1].rank();
  } else {
    axes.end = fields.num_axes < 0 ? rank : axes.begin + fields.num_axes;
  }
  if (axes.begin < 0 || axes.end > rank || (in.size() == 1 && axes.begin == 0)) {
    return LayerError(param, "%s { axis: %d num_axes: %d } does not fit the bottom's shape [%s]", fields.message,
                      fields.axis, axes.end - axes.begin, in[0].ToString().c_str());
  }
  if (in.size() > 1 && axes.begin > 0) return NotOfRows(param, fields);
  if (in.size() > 1 && axes.shape(in[0]) != in[1]) {
    return LayerError(param, "bottom 1 has shape [%s]; expected [%s], the first axes of bottom 0",
                      in[1].ToString().c_str(), axes.shape(in[0]).ToString().c_str());
  }
  return axes;
}

Status CheckFillers(const caffe::LayerParameter& param, const char* message, const std::vector<ParamSpec>& specs) {
  for (const ParamSpec& spec : specs) {
    if (spec.filler == nullptr) continue;
    HP_RETURN_IF_ERROR(
        CheckFiller(*spec.filler, spec.shape, Format("layer \"%s\": %s", param.name().c_str(), message)));
  }
  return OkStatus();
}

/// Caffe's default, where no filler is given. @tparam percent the value in hundredths.
template <int percent>
const caffe::FillerParameter& Constant() {
  static const caffe::FillerParameter kConstant = [] {
    caffe::FillerParameter constant;
    constant.set_type("constant");
    constant.set_value(percent / 100.0f);
    return constant;
  }();
  return kConstant;
}

Status CheckScale(const caffe::LayerParameter& param) {
  const caffe::ScaleParameter& scale = param.scale_param();
  if (param.bottom_size() > 1 && scale.bias_term()) {
    return LayerError(param,
                      "scale_param { bias_term: true } with two bottoms would learn a number for each row of a batch; "
                      "expected one bottom, or a layer of type Bias behind it");
  }
  return CheckAxes(param, FieldsOfScale(param));
}

int ScaleBlobs(const caffe::LayerParameter& param) {
  return param.bottom_size() > 1 ? 0 : param.scale_param().bias_term() ? 2 : 1;
}

std::vector<ParamSpec> ScaleParams(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  std::vector<ParamSpec> specs(ScaleBlobs(param));
  if (specs.empty()) return specs;
  const caffe::ScaleParameter& scale = param.scale_param();
  for (ParamSpec& spec : specs) spec.shape = ScaleAxes(param, in)->shape(in[0]);
  specs[0].filler = scale.has_filler() ? &scale.filler() : &Constant<100>();
  if (scale.bias_term() && scale.has_bias_filler()) specs[1].filler = &scale.bias_filler();
  return specs;
}

StatusOr<std::vector<Shape>> ScaleShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  HP_RETURN_IF_ERROR(ScaleAxes(param, in).status());
  HP_RETURN_IF_ERROR(CheckFillers(param, "scale_param", ScaleParams(param, in)));
  return std::vector<Shape>{in[0]};
}

Status CheckBias(const caffe::LayerParameter& param) { return CheckAxes(param, FieldsOfBias(param)); }

int BiasBlobs(const caffe::LayerParameter& param) { return param.bottom_size() > 1 ? 0 : 1; }

std::vector<ParamSpec> BiasParams(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  std::vector<ParamSpec> specs(BiasBlobs(param));
  for (ParamSpec& spec : specs) {
    spec.shape = BiasAxes(param, in)->shape(in[0]);
    if (param.bias_param().has_filler()) spec.filler = &param.bias_param().filler();
  }
  return specs;
}

StatusOr<std::vector<Shape>> BiasShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  HP_RETURN_IF_ERROR(BiasAxes(param, in).status());
  HP_RETURN_IF_ERROR(CheckFillers(param, "bias_param", BiasParams(param, in)));
  return std::vector<Shape>{in[0]};
}

std::vector<ParamSpec> PreluParams(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  const caffe::PReLUParameter& prelu = param.prelu_param();
  ParamSpec spec;
  spec.shape = Shape{prelu.channel_shared() ? 1 : in[0].dim(1)};
  spec.filler = prelu.has_filler() ? &prelu.filler() : &Constant<25>();
  return {spec};
}

StatusOr<std::vector<Shape>> PreluShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  if (in[0].rank() < 2) {
    return LayerError(param, "bottom shape [%s] does not fit; expected [rows, channels, ...]",
                      in[0].ToString().c_str());
  }
  HP_RETURN_IF_ERROR(CheckFillers(param, "prelu_param", PreluParams(param, in)));
  return in;
}

}  // namespace

StatusOr<BroadcastAxes> ScaleAxes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  return AxesOf(param, FieldsOfScale(param), in);
}

StatusOr<BroadcastAxes> BiasAxes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  return AxesOf(param, FieldsOfBias(param), in);
}

LayerType BiasType() {
  return {.name = "Bias",
          .fields = {"bias_param"},
          .bottoms = {1, 2},
          .in_place = true,
          .small_blobs = true,
          .check = CheckBias,
          .output_shapes = BiasShapes,
          .most_blobs = 1,
          .blobs = BiasBlobs,
          .params = BiasParams};
}

LayerType PreluType() {
  return {.name = "PReLU",
          .fields = {"prelu_param"},
          .in_place = true,
          .small_blobs = true,
          .output_shapes = PreluShapes,
          .most_blobs = 1,
          .params = PreluParams,
          .gradient_reads_input = [](const caffe::LayerParameter&) { return true; }};
}

LayerType ScaleType() {
  return {.name = "Scale",
          .fields = {"scale_param"},
          .bottoms = {1, 2},
          .in_place = true,
          .small_blobs = true,
          .check = CheckScale,
          .output_shapes = ScaleShapes,
          .most_blobs = 2,
          .blobs = ScaleBlobs,
          .params = ScaleParams};
}

}  // namespace hp
