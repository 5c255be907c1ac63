#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "hp/status.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace hp {

/// A file whose age says whether training goes on: for a scheduler's probes, which see no more of a hung job than open
/// sockets. Empty before the first iteration has ended; from then on it holds how many have, and is written again, at
/// most once a second, whenever there are more. A slow disk delays nobody but the thread "progress file".
class ProgressFile {
 public:
  /// Makes the file, or empties one of an earlier run. @return kInvalidArgument: it can't be written.
  static StatusOr<std::unique_ptr<ProgressFile>> Create(const std::string& path);
  /// Joins the thread, after a last look.
  ~ProgressFile();

  /// Starts to look each second. Once. @param iterations how many have ended, on the thread "progress file" and in the
  /// destructor; what it reads must live until then.
  void Follow(std::function<int64_t()> iterations);
  /// Writes the file if `iterations` are more than at the last look. A file that can't be written is one warning.
  /// Not beside Follow.
  void Look(int64_t iterations);

 private:
  ProgressFile(std::string path, int file) : path_(std::move(path)), file_(file) {}
  void Run();

  const std::string path_;
  const int file_;
  std::function<int64_t()> iterations_;
  int64_t written_ = 0;  // iterations
  bool warned_ = false;
  Mutex mutex_;
  CondVar changed_;
  bool stop_ HP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace hp
