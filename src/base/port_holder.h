#pragma once

#include <optional>
#include <string>

namespace hp {

/// Who listens on a TCP port of this host.
struct PortHolder {
  int pid = 0;          ///< 0: a process that we may not look at
  std::string program;  ///< its short name (/proc/PID/comm); empty: unknown

  std::string ToString() const;
};

/// Looks in /proc. Nothing: nobody listens there (now).
std::optional<PortHolder> FindPortHolder(int port);

}  // namespace hp
