#include "layers/data.h"

#include "layers/errors.h"
#include "layers/factories.h"
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
  return LayerError(param, "both data_param and transform_param have %s; give it in transform_param alone", twice);
}

/// `prefetch` needs no check: it is how many batches Caffe's reader holds ahead, and ours measures its own need.
Status CheckData(const caffe::LayerParameter& param) {
  const caffe::DataParameter& data = param.data_param();
  if (data.source().empty()) return LayerError(param, "data_param has no source");
  if (data.batch_size() == 0) return LayerError(param, "data_param { batch_size } must be 1 or more");
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

}  // namespace

const caffe::DataParameter& DataLayer::data() const { return param_.data_param(); }
const caffe::TransformationParameter& DataLayer::transform() const { return param_.transform_param(); }
int64_t DataLayer::batch_size() const { return param_.data_param().batch_size(); }
bool DataLayer::has_labels() const { return param_.top_size() > 1; }

StatusOr<std::vector<Shape>> DataLayer::OutputShapes(const std::vector<Shape>& in) const {
  if (in.size() != 1 || in[0].rank() != 4) return InternalError("DataLayer::OutputShapes wants the records' shape");
  const int64_t crop = transform().has_crop_size() ? transform().crop_size() : data().crop_size();
  const int64_t means = transform().mean_value_size();
  Shape images = in[0];
  if (crop > 0 && (images[2] < crop || images[3] < crop)) {
    return LayerError(param_, "crop_size %lld does not fit records of %lld x %lld pixels", static_cast<long long>(crop),
                      static_cast<long long>(images[2]), static_cast<long long>(images[3]));
  }
  if (means > 1 && means != images[1]) {
    return LayerError(param_, "%lld mean_value entries for records of %lld channels; give one, or one for each",
                      static_cast<long long>(means), static_cast<long long>(images[1]));
  }
  if (crop > 0) images = images.With(2, crop).With(3, crop);
  std::vector<Shape> out = {images};
  if (has_labels()) out.push_back({images[0]});
  return out;
}

StatusOr<LayerPtr> MakeDataLayer(const caffe::LayerParameter& param) {
  HP_RETURN_IF_ERROR(CheckData(param));
  HP_RETURN_IF_ERROR(CheckTransform(param));
  return LayerPtr(std::make_unique<DataLayer>(param));
}

}  // namespace hp
