#include "layers/traits/built_in_types.h"
#include "layers/traits/common_checks.h"
#include "layers/traits/errors.h"
#include "layers/traits/source_shapes.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// As in Caffe, the four fields that it moved to transform_param in 2014 count nowhere else: NetWarnings names those of
/// a net of today's form, and UpgradeNet moves those of an older one.
Status CheckMeans(const caffe::LayerParameter& param) {
  const caffe::TransformationParameter& transform = param.transform_param();
  if (transform.has_mean_file() && transform.mean_value_size() > 0) {
    return LayerError(param, "has both mean_file and mean_value; give one");
  }
  return OkStatus();
}

/// `prefetch` needs no check: it is how many batches Caffe's reader holds ahead, and ours measures its own need.
Status CheckData(const caffe::LayerParameter& param) {
  const caffe::DataParameter& data = param.data_param();
  if (data.source().empty()) return LayerError(param, "data_param has no source");
  HP_RETURN_IF_ERROR(CheckDim(param, "data_param { batch_size", data.batch_size()));
  HP_RETURN_IF_ERROR(CheckMeans(param));
  const caffe::TransformationParameter& transform = param.transform_param();
  if ((transform.force_color() || data.force_encoded_color()) && transform.force_gray()) {
    return LayerError(param, "has both force_color and force_gray; give one");
  }
  return OkStatus();
}

Status CheckImageData(const caffe::LayerParameter& param) {
  const caffe::ImageDataParameter& data = param.image_data_param();
  if (data.source().empty()) return LayerError(param, "image_data_param has no source");
  HP_RETURN_IF_ERROR(CheckDim(param, "image_data_param { batch_size", data.batch_size()));
  if ((data.new_height() > 0) != (data.new_width() > 0)) {
    return LayerError(param, "new_height %u and new_width %u: expected both or neither", data.new_height(),
                      data.new_width());
  }
  HP_RETURN_IF_ERROR(CheckSize(param, "image", {1, 3, data.new_height(), data.new_width()}));
  return CheckMeans(param);
}

Status CheckHdf5Data(const caffe::LayerParameter& param) {
  const caffe::HDF5DataParameter& data = param.hdf5_data_param();
  if (data.source().empty()) return LayerError(param, "hdf5_data_param has no source");
  return CheckDim(param, "hdf5_data_param { batch_size", data.batch_size());
}

StatusOr<std::vector<Shape>> DataShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  HP_ASSIGN_OR_RETURN(std::vector<Shape> out, RecordShapes(param, in));
  const caffe::TransformationParameter& transform = param.transform_param();
  const int64_t crop = transform.crop_size();
  const int64_t means = transform.mean_value_size();
  Shape& images = out[0];
  if (crop > 0 && (images[2] < crop || images[3] < crop)) {
    return LayerError(param, "crop_size %lld does not fit records of %lld x %lld pixels", static_cast<long long>(crop),
                      static_cast<long long>(images[2]), static_cast<long long>(images[3]));
  }
  if (means > 1 && means != images[1]) {
    return LayerError(param, "%lld mean_value entries for records of %lld channels; give one, or one per channel",
                      static_cast<long long>(means), static_cast<long long>(images[1]));
  }
  if (crop > 0) images = images.With(2, crop).With(3, crop);
  return out;
}

int64_t DataBatchSize(const caffe::LayerParameter& param) { return param.data_param().batch_size(); }
int64_t Hdf5DataBatchSize(const caffe::LayerParameter& param) { return param.hdf5_data_param().batch_size(); }
int64_t ImageDataBatchSize(const caffe::LayerParameter& param) { return param.image_data_param().batch_size(); }

}  // namespace

LayerType DataType() {
  return {.name = "Data",
          .fields = {"data_param", "transform_param"},
          .bottoms = {0, 0},
          .tops = {1, 2},
          .source = SourceKind::kDataset,
          .single_labels = true,
          .check = CheckData,
          .output_shapes = DataShapes,
          .batch_size = DataBatchSize};
}

LayerType Hdf5DataType() {
  return {.name = "HDF5Data",
          .fields = {"hdf5_data_param"},
          .bottoms = {0, 0},
          .tops = {1, kAnyNumber},
          .source = SourceKind::kDataset,
          .check = CheckHdf5Data,
          .output_shapes = RecordShapes,
          .batch_size = Hdf5DataBatchSize};
}

LayerType ImageDataType() {
  return {.name = "ImageData",
          .fields = {"image_data_param", "transform_param"},
          .bottoms = {0, 0},
          .tops = {1, 2},
          .source = SourceKind::kDataset,
          .single_labels = true,
          .check = CheckImageData,
          .output_shapes = DataShapes,
          .batch_size = ImageDataBatchSize};
}

}  // namespace hp
