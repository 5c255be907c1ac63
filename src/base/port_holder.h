#pragma once

#include <optional>
#include <string>

namespace hp {

/// The process that listens on a TCP port of this host.
struct PortHolder {
  int pid = 0;               ///< 0: unknown, a process whose /proc/PID/fd this user may not read
  std::string program = {};  ///< its short name (/proc/PID/comm); empty: unknown
  std::string user = {};     ///< numeric id of the socket's owner

  /// For messages: "hpnode (process 4711)", or "a process of user 1000".
  std::string ToString() const;
};

/// Finds which process listens on TCP port `port` of this host, on any of its addresses. Any thread. It scans /proc,
/// which takes milliseconds. @return nothing: no process listens there (any more).
/// Source: proc(5), /proc/net/tcp, /proc/net/tcp6 and /proc/PID/fd.
std::optional<PortHolder> FindPortHolder(int port);

}  // namespace hp
