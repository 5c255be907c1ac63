#include "run_folder/run_state.h"

#include "base/format.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <sstream>

namespace hp {
namespace {

int Lock(int fd, int command, short type, int64_t first, int64_t bytes, bool* taken = nullptr) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  lock.l_len = bytes;
  int result = 0;
  do {
    result = fcntl(fd, command, &lock);
  } while (result != 0 && errno == EINTR);
  if (taken != nullptr) *taken = result == 0 && lock.l_type != F_UNLCK;
  return result == 0 ? 0 : errno;
}

}  // namespace

bool RunState::Has(const std::string& node) const {
  return std::any_of(members.begin(), members.end(), [&node](const auto& member) { return member.first == node; });
}

std::string MemberText(const std::string& node, const std::string& where) {
  return "node " + node + "\t" + where + "\n";
}

std::string StateText(const RunState& state) {
  std::string text = Format("run %s\nstart %" PRId64 "\ntable %016" PRIx64 "\nincarnation %d\n",
                            state.start.run.c_str(), state.start.number, state.start.table, state.incarnation);
  for (const auto& [node, where] : state.members) text += MemberText(node, where);
  return text;
}

RunState ParseState(const std::string& text) {
  RunState state;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    const size_t tab = line.find('\t');
    if (line.starts_with("run ")) {
      state.start.run = line.substr(4);
    } else if (line.starts_with("node ") && tab != std::string::npos) {
      state.members.emplace_back(line.substr(5, tab - 5), line.substr(tab + 1));
    } else {
      std::sscanf(line.c_str(), "start %" SCNd64, &state.start.number);
      std::sscanf(line.c_str(), "table %" SCNx64, &state.start.table);
      std::sscanf(line.c_str(), "incarnation %d", &state.incarnation);
    }
  }
  return state;
}

int ByteLocks::Take(int64_t byte) const { return Lock(fd_, F_OFD_SETLK, F_WRLCK, byte, 1); }
int ByteLocks::Await(int64_t byte) const { return Lock(fd_, F_OFD_SETLKW, F_WRLCK, byte, 1); }
void ByteLocks::Release(int64_t byte) const { Lock(fd_, F_OFD_SETLK, F_UNLCK, byte, 1); }

bool ByteLocks::IsTaken(int64_t byte) const {
  bool taken = false;
  Lock(fd_, F_OFD_GETLK, F_WRLCK, byte, 1, &taken);
  return taken;
}

bool ByteLocks::IsAnyTaken(int64_t first) const {
  bool taken = false;
  Lock(fd_, F_OFD_GETLK, F_WRLCK, first, 0, &taken);
  return taken;
}

}  // namespace hp
