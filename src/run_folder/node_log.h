#pragma once

#include "base/log_writer.h"

#include "run_folder/rotating_log.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

namespace hp {

/// All that a process logs, in a file of its run folder, written by a thread of its own: neither a slow nor a full disk
/// holds training up. It begins before the file is known, and keeps what is logged until then. Any thread.
///   CopyLogTo(log->writer());
class NodeLog {
 public:
  static constexpr size_t kMostEarlyLines = 4096;  ///< kept until the file is known; the oldest go

  /// @param most_bytes of each file, as RotatingLog.
  explicit NodeLog(int64_t most_bytes = RotatingLog::kMostBytes);

  LogWriter* writer() { return &writer_; }
  /// The lines so far, and all that follow, go to this file. One that can't be written is a warning, once. Call once.
  void Open(const std::string& path);
  /// Calls `action` on the log's thread, behind the lines that were logged before.
  void Then(std::function<void()> action) HP_EXCLUDES(mutex_);

 private:
  // On the log's thread.
  void Write(const LogWriter::Line& line) HP_EXCLUDES(mutex_);
  void Add(const std::string& line);

  const int64_t most_bytes_;
  // The log's thread's alone.
  std::deque<std::string> early_;
  std::string path_;
  std::unique_ptr<RotatingLog> file_;
  bool warned_ = false;
  Mutex mutex_;
  std::deque<std::function<void()>> actions_ HP_GUARDED_BY(mutex_);
  LogWriter writer_;  // ends first
};

}  // namespace hp
