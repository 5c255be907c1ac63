#include "base/port_holder.h"

#include "base/format.h"

#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace hp {
namespace {

namespace fs = std::filesystem;

constexpr char kListening[] = "0A";  // TCP_LISTEN in /proc/net/tcp

/// The listening sockets on a port: of IPv4 and IPv6, or of several processes that share the port.
struct Listeners {
  std::set<std::string> sockets;  // as links in /proc/PID/fd name them
  std::string user;               // the number of the last one's owner
};

Listeners FindListeners(int port) {
  Listeners listeners;
  const std::string suffix = Format(":%04X", port);
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(path);
    std::string line;
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string slot, local, remote, state, queues, timer, retransmits, user, timeout, inode;
      words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode;
      if (state == kListening && local.size() > suffix.size() &&
          local.compare(local.size() - suffix.size(), suffix.size(), suffix) == 0) {
        listeners.sockets.insert("socket:[" + inode + "]");
        listeners.user = user;
      }
    }
  }
  return listeners;
}

bool Holds(const fs::path& process, const std::set<std::string>& sockets) {
  std::error_code error;
  for (fs::directory_iterator fd(process / "fd", error), end; !error && fd != end; fd.increment(error)) {
    std::error_code gone;
    if (sockets.count(fs::read_symlink(fd->path(), gone).string()) > 0) return true;
  }
  return false;
}

}  // namespace

std::string PortHolder::ToString() const {
  if (pid == 0) return "a process of user " + user;
  return Format("%s (process %d)", program.c_str(), pid);
}

std::optional<PortHolder> FindPortHolder(int port) {
  const Listeners listeners = FindListeners(port);
  if (listeners.sockets.empty()) return std::nullopt;
  std::error_code error;
  for (fs::directory_iterator process("/proc", error), end; !error && process != end; process.increment(error)) {
    const std::string name = process->path().filename().string();
    if (!std::isdigit(static_cast<unsigned char>(name[0])) || !Holds(process->path(), listeners.sockets)) continue;
    PortHolder holder{.pid = std::stoi(name), .user = listeners.user};
    std::ifstream comm(process->path() / "comm");
    std::getline(comm, holder.program);
    return holder;
  }
  return PortHolder{.user = listeners.user};
}

}  // namespace hp
