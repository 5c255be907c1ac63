#include "transport/verbs/pci.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

namespace hp {
namespace {

constexpr const char* kNames[] = {"PIX", "PXB", "PHB", "SYS"};

std::vector<std::string> PciParts(const std::string& path) {
  std::vector<std::string> parts;
  for (const auto& part : std::filesystem::path(path)) {
    const std::string text = part.string();
    if (text.starts_with("pci") || std::count(text.begin(), text.end(), ':') == 2) parts.push_back(text);
  }
  return parts;
}

std::string Resolve(const std::string& path) {
  std::error_code error;
  const auto resolved = std::filesystem::canonical(path, error);
  return error ? "" : resolved.string();
}

}  // namespace

const char* PciDistanceName(PciDistance distance) { return kNames[static_cast<int>(distance)]; }

PciDistance DistanceOf(const std::string& a, const std::string& b) {
  const std::vector<std::string> first = PciParts(a), second = PciParts(b);
  const auto [end, _] = std::mismatch(first.begin(), first.end(), second.begin(), second.end());
  const auto common = static_cast<size_t>(end - first.begin());
  if (common == 0) return PciDistance::kSys;  // not even one host bridge
  if (common == 1) return PciDistance::kPhb;
  // Below their last common bridge a switch adds one downstream port to each way.
  const size_t farther = std::max(first.size(), second.size()) - common;
  return farther <= 2 ? PciDistance::kPix : PciDistance::kPxb;
}

Status CheckGpuDistance(const std::string& sys_root, const std::string& hca, const std::string& gpu_pci_address,
                        const std::string& level) {
  if (level == "LOC") return FailedPrecondition("switched off by net_gdr_level LOC");
  const auto allowed = static_cast<PciDistance>(std::find(std::begin(kNames), std::end(kNames), level) - kNames);
  const PciDistance distance = gpu_pci_address.empty()
                                   ? PciDistance::kSys
                                   : DistanceOf(Resolve(sys_root + "/class/infiniband/" + hca + "/device"),
                                                Resolve(sys_root + "/bus/pci/devices/" + gpu_pci_address));
  if (distance <= allowed) return OkStatus();
  return FailedPrecondition("%s and the GPU are %s apart, net_gdr_level allows %s", hca.c_str(),
                            PciDistanceName(distance), level.c_str());
}

}  // namespace hp
