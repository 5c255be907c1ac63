#include "proto/names.h"

#include "base/words.h"

#include <algorithm>
#include <iterator>

namespace hp {

bool IsCaffeField(const std::string& message, const std::string& field) {
  static constexpr const char* kLayerFields[] = {
      "argmax_param",    "batch_norm_param",  "bias_param",       "clip_param",       "contrastive_loss_param",
      "crop_param",      "dummy_data_param",  "elu_param",        "embed_param",      "exp_param",
      "hdf5_data_param", "hdf5_output_param", "hinge_loss_param", "image_data_param", "infogain_loss_param",
      "log_param",       "memory_data_param", "mvn_param",        "parameter_param",  "power_param",
      "prelu_param",     "python_param",      "recurrent_param",  "reduction_param",  "reshape_param",
      "scale_param",     "slice_param",       "spp_param",        "swish_param",      "threshold_param",
      "tile_param",      "window_data_param"};
  return message == "LayerParameter" &&
         std::find(std::begin(kLayerFields), std::end(kLayerFields), field) != std::end(kLayerFields);
}

std::string NearestName(const std::string& name, const std::vector<std::string>& candidates) {
  std::string nearest;
  // With more letters wrong it is another word, not a misspelling: roi_pooling_param is not pooling_param.
  size_t least = (name.size() < 5 ? 1 : std::max<size_t>(2, name.size() / 5)) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace hp
