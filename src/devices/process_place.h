#pragma once

#include <cstdint>
#include <string>

namespace hp {

/// The host and process that a node runs in: they decide how another node of the host opens its memory.
struct ProcessPlace {
  uint64_t host_id = 0;       ///< HostId(); 0: unknown, and nobody counts as on the same host
  std::string pid_namespace;  ///< within which `pid` counts, as /proc names it; containers have their own
  int64_t pid = 0;

  /// Differs between all processes of the host, also in containers.
  std::string process() const { return pid_namespace + " " + std::to_string(pid); }
};
/// Of this process.
ProcessPlace ThisPlace();

}  // namespace hp
