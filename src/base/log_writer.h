#pragma once

#include "base/mutex.h"
#include "base/thread.h"

#include <chrono>
#include <cstdint>
#include <ctime>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hp {

/// What a program tells its user, written by a thread of its own: a terminal that is stopped, a pipe that nobody
/// reads or a slow disk holds up that thread alone, never one that computes or talks to other nodes. The queue is
/// bounded: when nobody takes the lines, those of progress are dropped, and counted; warnings and errors never are.
/// Any thread.
class LogWriter {
 public:
  /// Lines of progress that wait at most in a program's log.
  static constexpr size_t kMaxWaiting = 4096;

  struct Line {
    char severity = 'I';  ///< glog's: I, W, E, F. I is progress
    time_t time = 0;      ///< in s since 1970
    std::string text;     ///< with its newline
  };
  /// @param thread the name of its thread. @param max_waiting lines of progress that wait at most.
  /// @param output called on that thread, for each line in the order of Add; may block.
  /// @param on_dropped called on that thread when lines are written again after `lines` of them were dropped. It
  /// may call Add.
  LogWriter(const std::string& thread, size_t max_waiting, std::function<void(const Line&)> output,
            std::function<void(int64_t lines)> on_dropped);
  /// Writes what waits, however long that takes, and joins the thread.
  ~LogWriter();

  /// Queues a line. Never blocks.
  void Add(Line line) HP_EXCLUDES(mutex_);
  /// Waits until all lines that were added before are written. @return false: `limit` passed first.
  bool Flush(std::chrono::milliseconds limit) HP_EXCLUDES(mutex_);

 private:
  void Run() HP_EXCLUDES(mutex_);

  const size_t max_waiting_;
  const std::function<void(const Line&)> output_;
  const std::function<void(int64_t)> on_dropped_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Line> waiting_ HP_GUARDED_BY(mutex_);
  size_t progress_ HP_GUARDED_BY(mutex_) = 0;  // lines of waiting_ that are progress
  int64_t added_ HP_GUARDED_BY(mutex_) = 0, written_ HP_GUARDED_BY(mutex_) = 0, dropped_ HP_GUARDED_BY(mutex_) = 0;
  bool stop_ HP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

/// From now on glog's lines go through a LogWriter to where its flags say (--logtostderr, --log_dir, ...). For main
/// functions: after the flags were parsed and InitGoogleLogging, once. A fatal line waits up to 2 s to be written.
void StartLogWriter();
/// From now on `copy` gets each line that glog gets, too, and FlushLog and a fatal line also wait for it. After
/// StartLogWriter, once; `copy` is never destroyed.
void CopyLogTo(LogWriter* copy);
/// Waits until what was logged is written, `limit` at most: before the process ends.
void FlushLog(std::chrono::milliseconds limit);
/// A line that this process logged.
struct LoggedText {
  int64_t number = 0;   ///< of the process's lines, from 1; 0: no line
  char severity = 'I';  ///< glog's: I, W, E
  time_t time = 0;      ///< in s since 1970
  std::string text;     ///< without prefix and newline
};
/// The latest lines of a log, within a bound: of many, those of progress go first. Not thread-safe.
class RecentLines {
 public:
  static constexpr size_t kMost = 32;

  /// @param line as glog has it, with its prefix "W0102 03:04:05.678901 234 file.cc:56] ".
  void Add(char severity, time_t time, std::string_view line);
  /// The lines that are kept of those behind number `after`, oldest first.
  std::vector<LoggedText> After(int64_t after) const;
  /// The latest one of severity warning or error. Its number is 0: there is none.
  const LoggedText& last_warning() const { return last_warning_; }

 private:
  int64_t added_ = 0;
  std::deque<LoggedText> lines_;
  LoggedText last_warning_;
};
/// RecentLines of what this process logged through its log writer. Any thread.
LoggedText LastWarning();
std::vector<LoggedText> LinesAfter(int64_t number);
/// Writes to standard error behind the lines that were logged before; dropped when nobody reads. Without a log writer
/// at once.
void WriteProgress(const std::string& text);

}  // namespace hp
