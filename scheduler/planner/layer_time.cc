// A pass of a layer takes as long as the slower of two: its products at the speed of the processor, and the bytes that
// it touches at the speed of the memory. Weights are read once a pass and, in the gradient of the weights, read and
// written once; so passes of few rows cost as much as their weights. What touches bytes alone (ReLU, pooling, an
// update) follows from the second.
#include "scheduler/planner/layer_time.h"

#include "base/format.h"
#include "proto/hash.h"
#include "proto/net_filter.h"
#include "proto/planning.pb.h"
#include "proto/text.h"

#include <google/protobuf/text_format.h>

#include <algorithm>

namespace hp {

uint64_t ProfileHash(const caffe::NetParameter& net) {
  caffe::NetParameter bare;
  for (const int i : LayersOf(net, caffe::TRAIN)) {
    caffe::LayerParameter* const layer = bare.add_layer();
    *layer = net.layer(i);
    layer->clear_data_param();
    layer->clear_image_data_param();
    layer->clear_hdf5_data_param();
    layer->clear_dummy_data_param();
    layer->clear_transform_param();
    layer->clear_include();
    layer->clear_exclude();
    layer->clear_place();
  }
  return HashMessage(bare);
}

std::string ProfileText(const ProfileConfig& config) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(config, &text);
  return "# Times of the layers of net \"" + Printable(config.net()) + "\" on host \"" + Printable(config.host()) +
         "\", written by hproute --profile.\n" + text;
}

StatusOr<Profile> Profile::Create(const ProfileConfig& config, const std::string& path) {
  Profile profile;
  profile.path_ = path;
  profile.net_ = config.net();
  profile.host_ = config.host();
  profile.precision_ = config.precision();
  profile.threads_ = config.threads();
  profile.net_hash_ = config.net_hash();
  profile.bytes_per_second_ = config.memory_gb_per_s() * 1e9;
  profile.sample_.assign(config.sample().begin(), config.sample().end());
  if (profile.threads_ < 1)
    return InvalidArgument("%s: threads is %d; expected at least 1", path.c_str(), config.threads());
  if (!(profile.bytes_per_second_ >= 0 && profile.bytes_per_second_ < 1e18)) {
    return InvalidArgument("%s: memory_gb_per_s is %g; expected 0 to 10^9", path.c_str(), config.memory_gb_per_s());
  }
  for (const LayerProfile& layer : config.layer()) {
    std::vector<Timing>& timings = profile.layers_[layer.layer()];
    if (!timings.empty()) return InvalidArgument("%s: layer \"%s\" appears twice", path.c_str(), layer.layer().c_str());
    for (const LayerTiming& timing : layer.timing()) {
      const double least = timings.empty() ? 0 : timings.back().rows;
      if (static_cast<double>(timing.rows()) <= least) {
        return InvalidArgument("%s: layer \"%s\" has rows: %lld; expected more than %.0f", path.c_str(),
                               layer.layer().c_str(), static_cast<long long>(timing.rows()), least);
      }
      const int64_t passes[] = {timing.forward_ns(), timing.input_gradient_ns(), timing.weight_gradient_ns()};
      Timing& added = timings.emplace_back();
      added.rows = static_cast<double>(timing.rows());
      for (int pass = 0; pass < 3; ++pass) {
        if (passes[pass] < 0) {
          return InvalidArgument("%s: layer \"%s\" has a time of %lld ns; expected at least 0", path.c_str(),
                                 layer.layer().c_str(), static_cast<long long>(passes[pass]));
        }
        added.seconds[pass] = static_cast<double>(passes[pass]) * 1e-9;
      }
    }
    if (timings.empty()) {
      return InvalidArgument("%s: layer \"%s\" has no timing", path.c_str(), layer.layer().c_str());
    }
  }
  return profile;
}

StatusOr<Profile> Profile::Read(const std::string& path) {
  ProfileConfig config;
  HP_RETURN_IF_ERROR(ReadTextProto(path, &config));
  return Create(config, path);
}

Status Profile::CheckNet(const caffe::NetParameter& net, const SampleShape& sample) const {
  if (net_hash_ != ProfileHash(net)) {
    return InvalidArgument(
        "%s is a profile of another net (\"%s\"), not of \"%s\" as it is now; write a new one with "
        "hproute --profile=FILE --solver=FILE",
        path_.c_str(), net_.c_str(), net.name().c_str());
  }
  if (sample_ == sample.data.dims()) return OkStatus();
  return InvalidArgument("%s is a profile for samples of [%s], not of [%s]; write a new one", path_.c_str(),
                         Shape(sample_).ToString().c_str(), sample.data.ToString().c_str());
}

double Profile::Seconds(const std::string& layer, Pass pass, double rows) const {
  const std::vector<Timing>& timings = layers_.at(layer);
  const int p = static_cast<int>(pass);
  if (timings.size() == 1) return timings[0].seconds[p] * rows / timings[0].rows;
  const auto above = std::find_if(timings.begin() + 1, timings.end() - 1,
                                  [rows](const Timing& timing) { return timing.rows >= rows; });
  const Timing &low = *(above - 1), &high = *above;
  const double slope = std::max(0.0, (high.seconds[p] - low.seconds[p]) / (high.rows - low.rows));
  // Below the least rows the line may reach 0 too early; a pass never takes less than its part of the least one.
  const double least = rows < low.rows ? low.seconds[p] * rows / low.rows : 0;
  return std::max(least, low.seconds[p] + slope * (rows - low.rows));
}

LayerTimes::LayerTimes(const std::vector<LayerCost>& costs, const ComputeSpeed& speed, const Profile* profile,
                       double scale)
    : costs_(&costs), speed_(speed), profile_(profile), scale_(scale) {}

double LayerTimes::Seconds(int layer, Pass pass, double rows, double share) const {
  const LayerCost& cost = (*costs_)[layer];
  if (pass == Pass::kInputGradient && !cost.input_gradient) return 0;
  if (pass == Pass::kWeightGradient && !cost.learns) return 0;
  if (share == 0 || cost.in_bytes + cost.out_bytes == 0) return 0;
  if (profile_ != nullptr && profile_->Has(cost.layer)) {
    return scale_ * share * profile_->Seconds(cost.layer, pass, rows);
  }
  const double activations = rows * static_cast<double>(cost.in_bytes + cost.out_bytes);
  // Rows that are looked up are as many as come out.
  const double reads = cost.looks_up ? 0 : 1;
  const double parameters = static_cast<double>(cost.parameter_bytes) * (pass == Pass::kWeightGradient ? 2 : reads);
  // Without products a gradient reads what came in or went out as well.
  const double again =
      pass == Pass::kInputGradient && cost.products == 0 ? rows * static_cast<double>(cost.in_bytes) : 0;
  const double operations = 2 * rows * static_cast<double>(cost.products);
  return std::max(share * operations / speed_.flops,
                  share * (activations + parameters + again) / speed_.bytes_per_second) +
         1 / speed_.calls_per_second;
}

double LayerTimes::UpdateSeconds(int layer, double share) const {
  const LayerCost& cost = (*costs_)[layer];
  if (!cost.learns) return 0;
  return 6 * share * static_cast<double>(cost.learned_bytes) / speed_.bytes_per_second;
}

}  // namespace hp
