#pragma once

#include "hp/status.h"

#include <string>

namespace hp {

/// How far two PCI devices are apart, nearest first; NCCL's words.
enum class PciDistance { kPix, kPxb, kPhb, kSys };
const char* PciDistanceName(PciDistance distance);

/// @param a, b  resolved sysfs paths, e.g. /sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0.
PciDistance DistanceOf(const std::string& a, const std::string& b);

/// Whether the adapter `hca` is no farther from the GPU than `level` (VerbsSettings::gpudirect_level). A GPU or adapter
/// whose place is unknown counts as kSys. @return kFailedPrecondition: it is farther.
Status CheckGpuDistance(const std::string& sys_root, const std::string& hca, const std::string& gpu_pci_address,
                        const std::string& level);

}  // namespace hp
