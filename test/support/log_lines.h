#pragma once

#include "base/mutex.h"

#include "glog/logging.h"

#include <chrono>
#include <string>
#include <vector>

namespace hp::test {

/// Keeps what is logged during its life, from a severity up. Any thread.
class LogLines : public google::LogSink {
 public:
  explicit LogLines(google::LogSeverity least = google::GLOG_INFO) : least_(least) { google::AddLogSink(this); }
  ~LogLines() override { google::RemoveLogSink(this); }
  using LogSink::send;  // the overloads for older programs
  void send(google::LogSeverity severity, const char*, const char*, int, const google::LogMessageTime&,
            const char* message, size_t length) override HP_EXCLUDES(mutex_) {
    if (severity < least_) return;
    MutexLock lock(&mutex_);
    lines_.emplace_back(message, length);
    changed_.SignalAll();
  }

  /// The lines so far that have `text`, in their order.
  std::vector<std::string> With(const std::string& text) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    std::vector<std::string> found;
    for (const std::string& line : lines_) {
      if (line.find(text) != std::string::npos) found.push_back(line);
    }
    return found;
  }
  /// Waits for a line that has `text`. @return it; empty after 60 s.
  std::string Await(const std::string& text) HP_EXCLUDES(mutex_) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    MutexLock lock(&mutex_);
    for (size_t next = 0;; ++next) {
      while (next == lines_.size()) {
        if (!changed_.WaitFor(&mutex_, until - std::chrono::steady_clock::now())) return "";
      }
      if (lines_[next].find(text) != std::string::npos) return lines_[next];
    }
  }

 private:
  const google::LogSeverity least_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> lines_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp::test
