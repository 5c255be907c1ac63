#include "data/transformer.h"
#include "proto/caffe.pb.h"

namespace hp {

StatusOr<TransformOptions> TransformOptionsOf(const caffe::LayerParameter& layer) {
  const caffe::TransformationParameter& param = layer.transform_param();
  const caffe::DataParameter& old = layer.data_param();
  TransformOptions options;
  options.scale = param.has_scale() ? param.scale() : old.scale();
  options.mirror = param.has_mirror() ? param.mirror() : old.mirror();
  options.crop_size = param.has_crop_size() ? param.crop_size() : old.crop_size();
  options.force_color = param.force_color() || old.force_encoded_color();
  options.force_gray = param.force_gray();
  options.mean_value.assign(param.mean_value().begin(), param.mean_value().end());
  const std::string& mean_file = param.has_mean_file() ? param.mean_file() : old.mean_file();
  if (!mean_file.empty() && !options.mean_value.empty()) {
    return InvalidArgument("layer \"%s\": has both mean_file and mean_value; give one", layer.name().c_str());
  }
  if (options.force_color && options.force_gray) {
    return InvalidArgument("layer \"%s\": has both force_color and force_gray; give one", layer.name().c_str());
  }
  if (mean_file.empty()) return options;
  auto mean = ReadMeanFile(mean_file);
  if (!mean.ok()) return mean.status().Prepend("layer \"" + layer.name() + "\"");
  options.mean = *std::move(mean);
  return options;
}

}  // namespace hp
