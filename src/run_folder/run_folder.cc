#include "run_folder/run_folder.h"

#include "base/folder.h"
#include "base/format.h"
#include "base/host.h"
#include "base/input_file.h"

#include "glog/logging.h"
#include "run_folder/record.h"
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <random>
#include <sstream>
#include <utility>

namespace hp {
namespace {

constexpr char kLauncher[] = "hplaunch, ";

/// The hplaunch that had the folder last, as a record has it; empty: none, or nodes by themselves came behind it.
std::string LatestLauncher(const std::string& record) {
  std::string latest;
  std::istringstream lines(record);
  for (std::string line; std::getline(lines, line);) {
    const std::string text = line.substr(std::min(line.size(), kTimeOfRecord));
    if (text.starts_with(kLauncher)) {
      latest = text.substr(sizeof(kLauncher) - 1) + ", started at " + line.substr(0, kTimeOfRecord - 1);
    } else if (text.starts_with("incarnation ") && text.find(": ") != std::string::npos) {
      latest.clear();
    }
  }
  return latest;
}

}  // namespace

StatusOr<std::unique_ptr<RunFolder>> RunFolder::Open(const std::string& path) {
  HP_RETURN_IF_ERROR(CheckIsForRuns(path));
  HP_RETURN_IF_ERROR(MakeFolder(path + "/logs"));
  HP_RETURN_IF_ERROR(MakeFolder(path + "/snapshots"));
  const std::string record = path + "/record.txt";
  const int fd = open(record.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return InvalidArgument("%s: %s", record.c_str(), std::strerror(errno));
  std::unique_ptr<RunFolder> folder(new RunFolder(path, fd));
  HP_ASSIGN_OR_RETURN(const bool locked, LockRecord(fd, LOCK_EX, path));
  if (locked) return folder;
  const StatusOr<std::string> text = ReadInputFile(record);
  const std::string other = text.ok() ? LatestLauncher(*text) : "";
  return FailedPrecondition(
      "%s: another hplaunch or hpnode runs in this folder%s; wait for its end or stop it, or give this run another "
      "folder with --run_dir",
      path.c_str(), other.empty() ? "" : (" (" + Printable(other, 300) + ")").c_str());
}

RunFolder::~RunFolder() { close(record_); }

void RunFolder::RecordStart(const std::string& version) {
  Record(Format("%sprocess %d on %s, %s", kLauncher, static_cast<int>(getpid()), HostName().c_str(), version.c_str()));
}

void RunFolder::Record(const std::string& text) {
  const int error = AddToRecord(record_, text);
  if (error != 0) LOG(WARNING) << path_ << "/record.txt: not written: " << std::strerror(error);
}

int RunFolder::BeginIncarnation() {
  const int number = NextIncarnation(path_);
  Record(IncarnationText(number));
  RemoveOldLogs(path_, number);
  return number;
}

std::string RunFolder::LogPath(const std::string& node, int incarnation) const {
  return LogPathOf(path_, node, incarnation);
}

std::string NewRunId() {
  const time_t now = time(nullptr);
  tm parts = {};
  localtime_r(&now, &parts);
  char stamp[32];
  return std::string(stamp, strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S-", &parts)) +
         Format("%04x", std::random_device()() & 0xffff);
}

}  // namespace hp
