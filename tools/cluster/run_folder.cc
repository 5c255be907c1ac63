#include "tools/cluster/run_folder.h"

#include "base/format.h"
#include "base/host.h"
#include "base/input_file.h"
#include "tools/cluster/file_transfer.h"

#include "glog/logging.h"
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>
#include <sstream>

namespace hp {
namespace {

namespace fs = std::filesystem;

constexpr char kStart[] = "hplaunch, ";
constexpr char kIncarnation[] = "incarnation ";
constexpr size_t kBytesOfTime = 20;   // in front of each line of a record
constexpr int kKeptIncarnations = 8;  // whose logs are kept

std::string TimeText(const char* format) {
  const time_t now = time(nullptr);
  tm parts = {};
  localtime_r(&now, &parts);
  char text[64];
  return std::string(text, strftime(text, sizeof(text), format, &parts));
}

/// The latest of the processes that a record names; empty: none.
std::string LatestProcess(const std::string& record) {
  std::string latest;
  std::istringstream lines(record);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() < kBytesOfTime || line.compare(kBytesOfTime, sizeof(kStart) - 1, kStart) != 0) continue;
    latest = line.substr(kBytesOfTime + sizeof(kStart) - 1) + ", started at " + line.substr(0, kBytesOfTime - 1);
  }
  return latest;
}

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

}  // namespace

StatusOr<std::unique_ptr<RunFolder>> RunFolder::Open(const std::string& path) {
  HP_RETURN_IF_ERROR(MakeFolder(path + "/logs"));
  HP_RETURN_IF_ERROR(MakeFolder(path + "/snapshots"));
  const std::string record = path + "/record.txt";
  const int fd = open(record.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return InvalidArgument("%s: %s", record.c_str(), std::strerror(errno));
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return std::unique_ptr<RunFolder>(new RunFolder(path, fd));
  close(fd);
  const StatusOr<std::string> text = ReadInputFile(record);
  const std::string other = text.ok() ? LatestProcess(*text) : "";
  return FailedPrecondition(
      "%s: another hplaunch runs in this folder%s; wait for its end or stop it, or give this run another folder with "
      "--run_dir",
      path.c_str(), other.empty() ? "" : (" (" + Printable(other, 300) + ")").c_str());
}

RunFolder::~RunFolder() { close(record_); }

void RunFolder::RecordStart(const std::string& version) {
  Record(Format("%sprocess %d on %s, %s", kStart, static_cast<int>(getpid()), HostName().c_str(), version.c_str()));
}

void RunFolder::Record(const std::string& text) {
  const std::string line = TimeText("%Y-%m-%d %H:%M:%S ") + text + "\n";
  if (write(record_, line.data(), line.size()) == static_cast<ssize_t>(line.size())) return;
  LOG(WARNING) << path_ << "/record.txt: not written: " << std::strerror(errno);
}

int RunFolder::BeginIncarnation() {
  int number = 1;
  const std::string text = ReadInputFile(path_ + "/record.txt").ok() ? *ReadInputFile(path_ + "/record.txt") : "";
  for (size_t at = text.find(kIncarnation); at != std::string::npos; at = text.find(kIncarnation, at + 1)) {
    int found = 0;
    const char* const begin = text.data() + at + sizeof(kIncarnation) - 1;
    std::from_chars(begin, text.data() + text.size(), found);
    if (at == kBytesOfTime || text[at - kBytesOfTime - 1] == '\n')
      number = std::max(number, found + 1);  // right behind the time
  }
  Record(kIncarnation + std::to_string(number));
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path_ + "/logs", error)) {
    const int its = IncarnationOf(entry.path().filename().string());
    if (its > 0 && its <= number - kKeptIncarnations) fs::remove(entry.path(), error);
  }
  return number;
}

std::string RunFolder::LogPath(const std::string& node, int incarnation) const {
  std::string name = node;
  for (char& byte : name) byte = byte == '/' ? '_' : byte;
  return path_ + "/logs/" + name + "." + std::to_string(incarnation) + ".log";
}

std::string NewRunId() { return TimeText("%Y%m%d-%H%M%S-") + Format("%04x", std::random_device()() & 0xffff); }

RotatingLog::RotatingLog(std::string path, int64_t most_bytes) : path_(std::move(path)), most_bytes_(most_bytes) {
  Open(0);
  struct stat info = {};
  if (fd_ >= 0 && fstat(fd_, &info) == 0) bytes_ = info.st_size;
}

RotatingLog::~RotatingLog() {
  if (fd_ >= 0) close(fd_);
}

void RotatingLog::Open(int flags) {
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0644);
  opened_ = fd_ >= 0 ? OkStatus() : InvalidArgument("%s: %s", path_.c_str(), std::strerror(errno));
}

Status RotatingLog::Add(const std::string& line) {
  const std::string text = line + "\n";
  if (bytes_ > 0 && bytes_ + std::ssize(text) > most_bytes_) Rotate();
  bytes_ += std::ssize(text);
  if (!opened_.ok()) return opened_;
  const ssize_t written = write(fd_, text.data(), text.size());
  if (written == std::ssize(text)) return OkStatus();
  return ResourceExhausted("%s: %s", path_.c_str(), written < 0 ? std::strerror(errno) : "the disk is full");
}

void RotatingLog::Rotate() {
  for (int i = kMostFiles - 1; i > 0; --i) {
    const std::string from = i == 1 ? path_ : path_ + "." + std::to_string(i - 1);
    rename(from.c_str(), (path_ + "." + std::to_string(i)).c_str());
  }
  if (fd_ >= 0) close(fd_);
  Open(O_TRUNC);
  bytes_ = 0;
}

}  // namespace hp
