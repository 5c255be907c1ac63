#include "run_folder/rotating_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace hp {

RotatingLog::RotatingLog(std::string path, int64_t most_bytes) : path_(std::move(path)), most_bytes_(most_bytes) {
  Open(0);
}

RotatingLog::~RotatingLog() {
  if (fd_ >= 0) close(fd_);
}

void RotatingLog::Open(int flags) {
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0644);
  struct stat info = {};
  bytes_ = fd_ >= 0 && fstat(fd_, &info) == 0 ? info.st_size : 0;
}

Status RotatingLog::Add(const std::string& line) {
  const std::string text = line + "\n";
  if (fd_ < 0) Open(0);
  if (bytes_ > 0 && bytes_ + std::ssize(text) > most_bytes_) Rotate();
  if (fd_ < 0) return InvalidArgument("%s: %s", path_.c_str(), std::strerror(errno));
  const ssize_t written = write(fd_, text.data(), text.size());
  if (written > 0) bytes_ += written;
  if (written == std::ssize(text)) return OkStatus();
  return ResourceExhausted("%s: %s", path_.c_str(), std::strerror(written < 0 ? errno : ENOSPC));
}

void RotatingLog::Rotate() {
  for (int i = kMostFiles - 1; i > 0; --i) {
    const std::string from = i == 1 ? path_ : path_ + "." + std::to_string(i - 1);
    rename(from.c_str(), (path_ + "." + std::to_string(i)).c_str());
  }
  if (fd_ >= 0) close(fd_);
  Open(O_TRUNC);
}

}  // namespace hp
