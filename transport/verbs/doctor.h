#pragma once

#include "transport/verbs/settings.h"

#include <string>
#include <vector>

namespace hp {

class Verbs;

/// One fact about a host that matters to RDMA.
struct Finding {
  bool good = true;         ///< false: a problem
  std::string what;         ///< one line
  std::string advice = {};  ///< what to do about a problem; empty if good
};

/// Examines what RDMA needs on this host, for `hpnode --doctor`: devices, ports, GIDs, MTU, locked memory, and how
/// adapters reach GPUs. Changes nothing, sends nothing; takes milliseconds.
/// @param address ours as the peers know it; empty: unknown. @param sys_root where /sys is found; a test has its own.
/// @param verbs null: libibverbs. @return findings in the order to print; without a device one of them says so.
std::vector<Finding> ExamineRdma(const VerbsSettings& settings, const std::string& address,
                                 const std::string& sys_root = "/sys", Verbs* verbs = nullptr);

}  // namespace hp
