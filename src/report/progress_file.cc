#include "report/progress_file.h"

#include "base/format.h"

#include "glog/logging.h"
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace hp {

StatusOr<std::unique_ptr<ProgressFile>> ProgressFile::Create(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0644);
  if (file < 0) return InvalidArgument("--progress_file=%s: %s", path.c_str(), std::strerror(errno));
  return std::unique_ptr<ProgressFile>(new ProgressFile(path, file));
}

ProgressFile::~ProgressFile() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) {
    thread_.Join();
    Look(iterations_());
  }
  close(file_);
}

void ProgressFile::Follow(std::function<int64_t()> iterations) {
  iterations_ = std::move(iterations);
  thread_ = Thread("progress file", [this] { Run(); });
}

// In place, not by a rename: a probe looks at the time of the file, and may have it open.
void ProgressFile::Look(int64_t iterations) {
  if (iterations <= written_) return;
  const std::string text = Format("%lld iterations\n", static_cast<long long>(iterations));
  if (pwrite(file_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) {
    written_ = iterations;
    return;
  }
  if (!std::exchange(warned_, true)) LOG(WARNING) << path_ << ": " << std::strerror(errno);
}

void ProgressFile::Run() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      if (stop_) return;
      changed_.WaitFor(&mutex_, std::chrono::seconds(1));
      if (stop_) return;
    }
    Look(iterations_());
  }
}

}  // namespace hp
