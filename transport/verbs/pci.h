#pragma once

#include "hp/status.h"

#include <string>

namespace hp {

/// How far two PCI devices are apart, nearest first, in NCCL's terms.
enum class PciDistance {
  kPix,  ///< behind one PCIe switch
  kPxb,  ///< behind several PCIe switches of one host bridge
  kPhb,  ///< behind one host bridge only
  kSys   ///< behind different host bridges, or unknown
};
/// "PIX", "PXB", "PHB" or "SYS".
const char* PciDistanceName(PciDistance distance);

/// The distance of two devices, by the bridges that their paths share.
/// @param a, b resolved sysfs paths, e.g. /sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0; empty: unknown, kSys.
PciDistance DistanceOf(const std::string& a, const std::string& b);

/// Checks that the adapter `hca` ("mlx5_0") is no farther from a GPU than `level` (VerbsSettings::gpudirect_level,
/// checked before) allows. A GPU or adapter of unknown place counts as kSys.
/// @param gpu_pci_address "0000:3b:00.0"; empty: unknown. @return kFailedPrecondition: it is farther, or `level` is
/// LOC.
Status CheckGpuDistance(const std::string& sys_root, const std::string& hca, const std::string& gpu_pci_address,
                        const std::string& level);

}  // namespace hp
