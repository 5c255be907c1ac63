#pragma once

#include <string>

namespace hp {

/// Who listens on TCP port `port` of this host, as far as this user may know: "pid 4711 (hpnode)", "a process of user
/// 1000", or empty. Source: proc(5), /proc/net/tcp, /proc/net/tcp6 and /proc/PID/fd.
std::string FindPortHolder(int port);

}  // namespace hp
