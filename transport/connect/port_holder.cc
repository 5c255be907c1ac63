#include "transport/connect/port_holder.h"

#include "base/format.h"

#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

namespace hp {
namespace {

namespace fs = std::filesystem;

struct Listener {
  unsigned long inode = 0;
  unsigned user = 0;
};

std::optional<Listener> FindListener(const char* table, int port) {
  constexpr unsigned kListen = 0x0A;
  std::ifstream file(table);
  std::string line;
  while (std::getline(file, line)) {
    unsigned local_port = 0, state = 0;
    Listener found;
    // sl local_address:port rem_address:port st tx:rx tr:when retrnsmt uid timeout inode
    const int fields =
        std::sscanf(line.c_str(), " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x %*x %u %*d %lu",
                    &local_port, &state, &found.user, &found.inode);
    if (fields == 4 && state == kListen && local_port == static_cast<unsigned>(port)) return found;
  }
  return std::nullopt;
}

bool HoldsSocket(const fs::path& process, const std::string& link) {
  std::error_code error;
  for (fs::directory_iterator fd(process / "fd", error), end; !error && fd != end; fd.increment(error)) {
    std::error_code unreadable;  // the descriptor may be gone by now
    if (fs::read_symlink(fd->path(), unreadable) == link) return true;
  }
  return false;
}

}  // namespace

std::string FindPortHolder(int port) {
  std::optional<Listener> listener = FindListener("/proc/net/tcp", port);
  if (!listener) listener = FindListener("/proc/net/tcp6", port);
  if (!listener) return "";
  const std::string link = Format("socket:[%lu]", listener->inode);
  std::error_code error;
  for (fs::directory_iterator process("/proc", error), end; !error && process != end; process.increment(error)) {
    const std::string pid = process->path().filename();
    if (!std::isdigit(static_cast<unsigned char>(pid[0])) || !HoldsSocket(process->path(), link)) continue;
    std::string command;
    std::getline(std::ifstream(process->path() / "comm"), command);
    return Format("pid %s (%s)", pid.c_str(), command.c_str());
  }
  return Format("a process of user %u", listener->user);
}

}  // namespace hp
