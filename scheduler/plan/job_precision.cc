#include "scheduler/plan/job_precision.h"

#include "base/format.h"

#include <set>

namespace hp {
namespace {

/// A layer of the node whose products `precision: BF16` rounds; null: it has none. Inner products of CPUs stay float32.
const caffe::LayerParameter* RoundedLayer(const JobPlan& job, Rank rank) {
  static const std::set<std::string> kConvolutions = {"Convolution", "Deconvolution"};
  static const std::set<std::string> kProducts = {"Convolution", "Deconvolution", "InnerProduct"};
  const std::set<std::string>& rounded = job.table().node(rank).device == "cpu" ? kConvolutions : kProducts;
  for (const Phase phase : job.phases()) {
    for (const LayerPlan& layer : job.node(rank, phase).layers()) {
      const caffe::LayerParameter* const config = job.graph(phase).layers()[layer.layer].param;
      if (rounded.contains(config->type())) return config;
    }
  }
  return nullptr;
}

}  // namespace

RoutingTableConfig::Precision ChoosePrecision(const JobPlan& job, const std::function<bool(Rank)>& lacks_bfloat16) {
  for (const NodeInfo& node : job.table().nodes()) {
    if (lacks_bfloat16(node.rank) && RoundedLayer(job, node.rank) != nullptr) return RoutingTableConfig::FP32;
  }
  return RoutingTableConfig::BF16;
}

Status CheckPrecision(const JobPlan& job, Rank rank, RoutingTableConfig::Precision precision,
                      const std::string& lacks_bfloat16) {
  if (precision != RoutingTableConfig::BF16 || lacks_bfloat16.empty()) return OkStatus();
  const caffe::LayerParameter* const layer = RoundedLayer(job, rank);
  if (layer == nullptr) return OkStatus();
  const bool kept = job.table().config().precision() == RoutingTableConfig::AUTO;
  return InvalidArgument("node \"%s\" can't compute layer \"%s\" with precision: BF16%s: %s; %s",
                         job.table().node(rank).name.c_str(), layer->name().c_str(),
                         kept ? ", as before the snapshot" : "", lacks_bfloat16.c_str(),
                         kept ? "with precision: FP32 in the table the job can go on here"
                              : "it can with FP32, and AUTO takes what all nodes can");
}

StatusOr<RoutingTableConfig::Precision> PrecisionAlone(RoutingTableConfig::Precision wanted, const std::string& device,
                                                       const std::string& lacks_bfloat16) {
  if (wanted == RoutingTableConfig::AUTO) {
    return lacks_bfloat16.empty() ? RoutingTableConfig::BF16 : RoutingTableConfig::FP32;
  }
  if (wanted != RoutingTableConfig::BF16 || lacks_bfloat16.empty()) return wanted;
  return InvalidArgument("device \"%s\" can't compute with precision: BF16: %s; it can with FP32", device.c_str(),
                         lacks_bfloat16.c_str());
}

}  // namespace hp
