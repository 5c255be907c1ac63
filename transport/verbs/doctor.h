#pragma once

#include "transport/verbs/settings.h"

#include <string>
#include <vector>

namespace hp {

class Verbs;

/// Something that was looked at on a host.
struct Finding {
  bool good = true;
  std::string what;
  std::string advice = {};  ///< what to do about it
};

/// Looks at what RDMA needs on this host: devices, ports, GIDs, MTU, locked memory, and how adapters reach GPUs.
/// Changes nothing, sends nothing; takes milliseconds. @return in the order to be printed; without a device one of them
/// says so.
/// @param address ours as peers know it; empty: unknown. @param verbs null: libibverbs. @param sys_root "/sys".
std::vector<Finding> ExamineRdma(const VerbsSettings& settings, const std::string& address,
                                 const std::string& sys_root = "/sys", Verbs* verbs = nullptr);

}  // namespace hp
