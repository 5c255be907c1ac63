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

/// Inodes of the listening sockets on `port`.
std::set<std::string> ListeningInodes(int port) {
  std::set<std::string> inodes;
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
        inodes.insert("socket:[" + inode + "]");
      }
    }
  }
  return inodes;
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
  if (pid == 0) return "a process of another user";
  return Format("%s (process %d)", program.c_str(), pid);
}

std::optional<PortHolder> FindPortHolder(int port) {
  const std::set<std::string> sockets = ListeningInodes(port);
  if (sockets.empty()) return std::nullopt;
  std::error_code error;
  for (fs::directory_iterator process("/proc", error), end; !error && process != end; process.increment(error)) {
    const std::string name = process->path().filename().string();
    if (!std::isdigit(static_cast<unsigned char>(name[0])) || !Holds(process->path(), sockets)) continue;
    PortHolder holder;
    holder.pid = std::stoi(name);
    std::ifstream comm(process->path() / "comm");
    std::getline(comm, holder.program);
    return holder;
  }
  return PortHolder{};
}

}  // namespace hp
