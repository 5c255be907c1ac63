#pragma once

#include <optional>
#include <string>

namespace hp {

/// The process that listens on a TCP port of this host.
struct PortHolder {
  int pid = 0;               ///< 0: a process that this user may not look at
  std::string program = {};  ///< its short name (/proc/PID/comm); empty: unknown
  std::string user = {};     ///< the number of the user that it belongs to

  /// For messages: "hpnode (process 4711)", or "a process of user 1000".
  std::string ToString() const;
};

/// Finds who listens on TCP port `port` of this host, on any of its addresses; any thread. It reads /proc, which takes
/// milliseconds. @return nothing: nobody listens there, or not any more.
/// Source: proc(5), /proc/net/tcp, /proc/net/tcp6 and /proc/PID/fd.
std::optional<PortHolder> FindPortHolder(int port);

}  // namespace hp
