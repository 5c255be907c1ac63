#include "run_folder/record.h"

#include "base/input_file.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <filesystem>

namespace hp {
namespace {

constexpr char kIncarnation[] = "incarnation ";
constexpr int kKeptIncarnations = 8;  // whose logs are kept

/// The incarnation in the name of a log, "conv0.12.log" or "conv0.12.log.3"; 0: another file.
int IncarnationOf(const std::string& name) {
  const size_t end = name.rfind(".log");
  const size_t dot = end == std::string::npos || end == 0 ? end : name.rfind('.', end - 1);
  int number = 0;
  if (end != std::string::npos && dot != std::string::npos) {
    std::from_chars(name.data() + dot + 1, name.data() + end, number);
  }
  return number;
}

/// Whether a file has bytes behind its last newline.
bool EndsWithinLine(int fd) {
  struct stat info = {};
  char last = '\n';
  return fstat(fd, &info) == 0 && info.st_size > 0 && pread(fd, &last, 1, info.st_size - 1) == 1 && last != '\n';
}

}  // namespace

int AddToRecord(int record, const std::string& text) {
  const time_t now = time(nullptr);
  tm parts = {};
  localtime_r(&now, &parts);
  char stamp[kTimeOfRecord + 1];
  const size_t stamp_bytes = strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S ", &parts);
  const std::string line = (EndsWithinLine(record) ? "\n" : "") + std::string(stamp, stamp_bytes) + text + "\n";
  errno = ENOSPC;  // of a write in part
  return write(record, line.data(), line.size()) == std::ssize(line) ? 0 : errno;
}

StatusOr<bool> LockRecord(int record, int operation, const std::string& folder) {
  if (flock(record, operation | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  return NoLocks(folder + "/record.txt", errno);
}

Status NoLocks(const std::string& path, int error) {
  return FailedPrecondition(
      "%s: cannot be locked (%s), so a second run there would not be noticed; choose a folder on a disk with file "
      "locks",
      path.c_str(), std::strerror(error));
}

std::string IncarnationText(int number, const std::string& of) {
  return kIncarnation + std::to_string(number) + (of.empty() ? "" : ": " + of);
}

Status CheckIsForRuns(const std::string& folder) {
  std::error_code ignored;
  const auto solver = ReadInputFile(folder + "/solver.prototxt");
  if (solver.ok() && solver->starts_with(kWrittenBy)) return OkStatus();  // a run's, on a host without the record
  for (const char* name : {"/table.prototxt", "/solver.prototxt", "/net.prototxt"}) {
    if (!std::filesystem::exists(folder + name, ignored)) continue;
    if (std::filesystem::exists(folder + "/record.txt", ignored)) return OkStatus();  // looked for last: it comes first
    return FailedPrecondition("%s%s is there, and no run wrote it: a run would replace it; name another folder",
                              folder.c_str(), name);
  }
  return OkStatus();
}

int NextIncarnation(const std::string& folder) {
  int number = 1;
  const auto record = ReadInputFile(folder + "/record.txt");
  const std::string text = record.ok() ? *record : "";
  for (size_t at = text.find(kIncarnation); at != std::string::npos; at = text.find(kIncarnation, at + 1)) {
    int found = 0;
    const char* const begin = text.data() + at + sizeof(kIncarnation) - 1;
    std::from_chars(begin, text.data() + text.size(), found);
    if (at == kTimeOfRecord || (at > kTimeOfRecord && text[at - kTimeOfRecord - 1] == '\n')) {
      number = std::max(number, found + 1);
    }
  }
  return number;
}

std::string LogPathOf(const std::string& folder, const std::string& node, int incarnation) {
  std::string name = node;
  for (char& byte : name) byte = byte == '/' ? '_' : byte;
  return folder + "/logs/" + name + "." + std::to_string(incarnation) + ".log";
}

void RemoveOldLogs(const std::string& folder, int incarnation) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/logs", error)) {
    const int its = IncarnationOf(entry.path().filename().string());
    if (its > 0 && its <= incarnation - kKeptIncarnations) std::filesystem::remove(entry.path(), error);
  }
}

}  // namespace hp
