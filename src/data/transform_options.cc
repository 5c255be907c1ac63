#include "data/image.h"
#include "data/transformer.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// The size, which traits check too, is checked here for those who open the data first.
Status TakeImageFields(const caffe::ImageDataParameter& param, TransformOptions* options) {
  const int64_t height = param.new_height(), width = param.new_width();
  if ((height > 0) != (width > 0) || (height > 0 && height > kMaxImagePixels / width)) {
    return InvalidArgument("new_height %lld and new_width %lld: expected both or neither, and at most %lld pixels",
                           static_cast<long long>(height), static_cast<long long>(width),
                           static_cast<long long>(kMaxImagePixels));
  }
  options->resize_height = static_cast<int>(height);
  options->resize_width = static_cast<int>(width);
  options->force_color = param.is_color();
  options->force_gray = !param.is_color();
  options->size_advice = "; images of different sizes need new_height and new_width, or a crop_size";
  return OkStatus();
}

/// All but the mean file.
Status ReadOptions(const caffe::LayerParameter& layer, TransformOptions* options) {
  const caffe::TransformationParameter& param = layer.transform_param();
  options->scale = param.scale();
  options->mirror = param.mirror();
  options->crop_size = param.crop_size();
  if (layer.type() == "ImageData") {
    HP_RETURN_IF_ERROR(TakeImageFields(layer.image_data_param(), options));
  } else {
    options->size_advice = "; images of different sizes need a crop_size";
    options->force_color = param.force_color() || layer.data_param().force_encoded_color();
    options->force_gray = param.force_gray();
    if (!options->force_color && !options->force_gray) {
      options->channels_advice = "; encoded images, some gray and some in colour, need force_color or force_gray";
    }
  }
  options->mean_value.assign(param.mean_value().begin(), param.mean_value().end());
  if (!param.mean_file().empty() && !options->mean_value.empty()) {
    return InvalidArgument("has both mean_file and mean_value; give one");
  }
  if (options->force_color && options->force_gray) {
    return InvalidArgument("has both force_color and force_gray; give one");
  }
  return OkStatus();
}

std::string NameOf(const caffe::LayerParameter& layer) { return "layer \"" + layer.name() + "\""; }

}  // namespace

StatusOr<TransformOptions> TransformOptionsOf(const caffe::LayerParameter& layer) {
  TransformOptions options;
  HP_RETURN_IF_ERROR(ReadOptions(layer, &options).Prepend(NameOf(layer)));
  const std::string& mean_file = layer.transform_param().mean_file();
  if (mean_file.empty()) return options;
  StatusOr<MeanImage> mean = ReadMeanFile(mean_file);
  if (!mean.ok()) return mean.status().Prepend(NameOf(layer));
  options.mean = *std::move(mean);
  return options;
}

Status CheckTransformFields(const caffe::LayerParameter& layer) {
  TransformOptions options;
  return ReadOptions(layer, &options).Prepend(NameOf(layer));
}

}  // namespace hp
