// Faults of the devices that nodes compute on, by the table alone: whether they are there only their hosts know.
#include "base/format.h"
#include "scheduler/plan/table_check.h"
#include "scheduler/plan/table_places.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace hp {
namespace {

/// A GPU computes for one replica of a stage: NCCL takes no two. Which GPU a scheduler gives to a node is not known
/// here.
void CheckSharedGpus(const RoutingTableConfig& config, std::vector<std::string>* faults) {
  std::map<std::tuple<std::string, std::string, int>, int> first;
  for (int rank = 0; rank < config.node_size(); ++rank) {
    const NodeConfig& node = config.node(rank);
    if (node.device() == "cpu" || node.device() == kOwnGpu) continue;
    for (const StagePart& part : PartsOf(node)) {
      if (part.stage < 0 || part.stage >= config.stage_size()) continue;
      if (config.stage(part.stage).kind() != StageConfig::CONV) continue;
      const auto [entry, fresh] = first.emplace(std::tuple(node.host(), node.device(), part.stage), rank);
      if (fresh || entry->second == rank) continue;
      faults->push_back(Format("%s: %s and %s both compute on %s of %s; expected a GPU of its own for each replica",
                               StageLabel(config, part.stage).c_str(), NodeLabel(config, entry->second).c_str(),
                               NodeLabel(config, rank).c_str(), node.device().c_str(), node.host().c_str()));
    }
  }
}

void CheckEngines(const RoutingTableConfig& config, std::vector<std::string>* faults) {
  if (config.convolution_engines() != RoutingTableConfig::TIMED || config.node().empty()) return;
  const auto on_gpu = [](const NodeConfig& node) { return node.device() != "cpu"; };
  if (std::any_of(config.node().begin(), config.node().end(), on_gpu)) return;
  faults->push_back(
      "convolution_engines is TIMED, but no node computes on a GPU; expected HEURISTIC, or a node with device: "
      "\"cuda:N\"");
}

/// Pixels must not depend on which node reads a record.
void CheckJpegDecoder(const RoutingTableConfig& config, std::vector<std::string>* faults) {
  if (config.jpeg_decoder() != RoutingTableConfig::GPU) return;
  for (int rank = 0; rank < config.node_size(); ++rank) {
    const NodeConfig& node = config.node(rank);
    const std::vector<StagePart> parts = PartsOf(node);
    const bool reads = std::any_of(parts.begin(), parts.end(), [](const StagePart& part) { return part.stage == 0; });
    if (!reads || node.device() != "cpu") continue;
    faults->push_back(
        Format("jpeg_decoder is GPU, but %s reads records and computes on processors; expected HOST, or device: "
               "\"cuda:N\" for each node of the first stage",
               NodeLabel(config, rank).c_str()));
  }
}

}  // namespace

std::vector<std::string> CheckDevices(const RoutingTableConfig& config) {
  std::vector<std::string> faults;
  CheckSharedGpus(config, &faults);
  CheckEngines(config, &faults);
  CheckJpegDecoder(config, &faults);
  return faults;
}

}  // namespace hp
