#include "proto/names.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace hp {
namespace {

int EditDistance(const std::string& a, const std::string& b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const int replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace

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
  // More than a third of its letters wrong is another word, not a misspelling.
  int least = std::max<int>(1, static_cast<int>(name.size()) / 3) + 1;
  for (const std::string& candidate : candidates) {
    const int distance = EditDistance(name, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace hp
