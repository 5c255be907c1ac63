#include "base/format.h"
#include "layers/traits/built_in_types.h"
#include "layers/traits/errors.h"
#include "layers/traits/filler_check.h"
#include "layers/traits/scaled_axes.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

Status CheckScale(const caffe::LayerParameter& param) {
  const caffe::ScaleParameter& scale = param.scale_param();
  if (scale.has_bias_filler() && !scale.bias_term()) {
    return LayerError(param, "scale_param: bias_filler without bias_term: true");
  }
  if (scale.num_axes() < -1) {
    return LayerError(param, "scale_param { num_axes: %d }: expected -1 (all behind axis) or more", scale.num_axes());
  }
  const bool learned = param.bottom_size() == 1;
  if (learned && scale.axis() == 0) {
    return LayerError(param,
                      "scale_param { axis: 0 } would learn a factor for each row of a batch; expected axis 1 or "
                      "more, or a second bottom with the factors");
  }
  if (!learned && scale.bias_term()) {
    return LayerError(param,
                      "scale_param { bias_term: true } with two bottoms is not supported; expected one bottom, or "
                      "a layer of type Bias behind it");
  }
  if (!learned && scale.axis() != 0) {
    return LayerError(param,
                      "scale_param { axis: %d } with two bottoms is not supported: axis 0 of both are rows; "
                      "expected axis: 0",
                      scale.axis());
  }
  return OkStatus();
}

int ScaleBlobs(const caffe::LayerParameter& param) {
  return param.bottom_size() > 1 ? 0 : param.scale_param().bias_term() ? 2 : 1;
}

/// Caffe's default, where no filler is given.
const caffe::FillerParameter& One() {
  static const caffe::FillerParameter kOne = [] {
    caffe::FillerParameter one;
    one.set_type("constant");
    one.set_value(1);
    return one;
  }();
  return kOne;
}

std::vector<ParamSpec> ScaleParams(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  std::vector<ParamSpec> specs(ScaleBlobs(param));
  if (specs.empty()) return specs;
  const caffe::ScaleParameter& scale = param.scale_param();
  for (ParamSpec& spec : specs) spec.shape = ScaledAxesOf(param, in)->shape(in[0]);
  specs[0].filler = scale.has_filler() ? &scale.filler() : &One();
  if (scale.has_bias_filler()) specs[1].filler = &scale.bias_filler();
  return specs;
}

StatusOr<std::vector<Shape>> ScaleShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  HP_RETURN_IF_ERROR(ScaledAxesOf(param, in).status());
  for (const ParamSpec& spec : ScaleParams(param, in)) {
    if (spec.filler == nullptr) continue;
    HP_RETURN_IF_ERROR(
        CheckFiller(*spec.filler, spec.shape, Format("layer \"%s\": scale_param", param.name().c_str())));
  }
  return std::vector<Shape>{in[0]};
}

}  // namespace

StatusOr<ScaledAxes> ScaledAxesOf(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  const caffe::ScaleParameter& scale = param.scale_param();
  const int rank = in[0].rank();
  ScaledAxes axes;
  axes.begin = scale.axis() < 0 ? scale.axis() + rank : scale.axis();
  if (in.size() > 1) {
    axes.end = axes.begin + in[1].rank();
  } else {
    axes.end = scale.num_axes() < 0 ? rank : axes.begin + scale.num_axes();
  }
  if (axes.begin < 0 || axes.end > rank || (in.size() == 1 && axes.begin == 0)) {
    return LayerError(param, "scale_param { axis: %d num_axes: %d } does not fit the bottom's shape [%s]", scale.axis(),
                      axes.end - axes.begin, in[0].ToString().c_str());
  }
  if (in.size() > 1 && axes.shape(in[0]) != in[1]) {
    return LayerError(param, "bottom 1 has shape [%s]; expected [%s], the first axes of bottom 0",
                      in[1].ToString().c_str(), axes.shape(in[0]).ToString().c_str());
  }
  return axes;
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
