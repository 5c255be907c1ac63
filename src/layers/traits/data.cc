#include "layers/traits/built_in_types.h"
#include "layers/traits/common_checks.h"
#include "layers/traits/errors.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// Caffe moved four fields from data_param to transform_param in 2014. Both places are read, but not at once.
Status CheckMovedFields(const caffe::LayerParameter& param) {
  const caffe::DataParameter& data = param.data_param();
  const caffe::TransformationParameter& transform = param.transform_param();
  const char* twice = data.has_scale() && transform.has_scale()           ? "scale"
                      : data.has_mean_file() && transform.has_mean_file() ? "mean_file"
                      : data.has_crop_size() && transform.has_crop_size() ? "crop_size"
                      : data.has_mirror() && transform.has_mirror()       ? "mirror"
                                                                          : nullptr;
  if (twice == nullptr) return OkStatus();
  return LayerError(param, "both data_param and transform_param have %s; give it in transform_param only", twice);
}

/// `prefetch` needs no check: it is how many batches Caffe's reader holds ahead, and ours measures its own need.
Status CheckData(const caffe::LayerParameter& param) {
  const caffe::DataParameter& data = param.data_param();
  if (data.source().empty()) return LayerError(param, "data_param has no source");
  HP_RETURN_IF_ERROR(CheckDim(param, "data_param { batch_size", data.batch_size()));
  return CheckMovedFields(param);
}

Status CheckTransform(const caffe::LayerParameter& param) {
  const caffe::TransformationParameter& transform = param.transform_param();
  const caffe::DataParameter& data = param.data_param();
  if ((transform.has_mean_file() || data.has_mean_file()) && transform.mean_value_size() > 0) {
    return LayerError(param, "has both mean_file and mean_value; give one");
  }
  if ((transform.force_color() || data.force_encoded_color()) && transform.force_gray()) {
    return LayerError(param, "has both force_color and force_gray; give one");
  }
  return OkStatus();
}

Status CheckDataLayer(const caffe::LayerParameter& param) {
  HP_RETURN_IF_ERROR(CheckData(param));
  return CheckTransform(param);
}

StatusOr<std::vector<Shape>> DataShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  if (in.size() != 1 || in[0].rank() != 4)
    return LayerError(param, "cannot infer shapes without the shape [rows, channels, height, width] of its records");
  const caffe::TransformationParameter& transform = param.transform_param();
  const int64_t crop = transform.has_crop_size() ? transform.crop_size() : param.data_param().crop_size();
  const int64_t means = transform.mean_value_size();
  Shape images = in[0];
  if (crop > 0 && (images[2] < crop || images[3] < crop)) {
    return LayerError(param, "crop_size %lld does not fit records of %lld x %lld pixels", static_cast<long long>(crop),
                      static_cast<long long>(images[2]), static_cast<long long>(images[3]));
  }
  if (means > 1 && means != images[1]) {
    return LayerError(param, "%lld mean_value entries for records of %lld channels; give one, or one per channel",
                      static_cast<long long>(means), static_cast<long long>(images[1]));
  }
  if (crop > 0) images = images.With(2, crop).With(3, crop);
  std::vector<Shape> out = {images};
  if (param.top_size() > 1) out.push_back({images[0]});
  return out;
}

int64_t DataBatchSize(const caffe::LayerParameter& param) { return param.data_param().batch_size(); }

}  // namespace

LayerType DataType() {
  return {.name = "Data",
          .fields = {"data_param", "transform_param"},
          .bottoms = {0, 0},
          .tops = {1, 2},
          .source = SourceKind::kDataset,
          .check = CheckDataLayer,
          .output_shapes = DataShapes,
          .batch_size = DataBatchSize};
}

}  // namespace hp
