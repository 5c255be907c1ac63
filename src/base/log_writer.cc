#include "base/log_writer.h"

#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace hp {

LogWriter::LogWriter(const std::string& thread, size_t max_waiting, std::function<void(const Line&)> output,
                     std::function<void(int64_t lines)> on_dropped)
    : max_waiting_(max_waiting),
      output_(std::move(output)),
      on_dropped_(std::move(on_dropped)),
      thread_(thread, [this] { Run(); }) {}

LogWriter::~LogWriter() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  thread_.Join();
}

void LogWriter::Add(Line line) {
  MutexLock lock(&mutex_);
  const bool progress = line.severity == 'I';
  if (progress && progress_ == max_waiting_) {
    ++dropped_;
    return;
  }
  progress_ += progress;
  ++added_;
  waiting_.push_back(std::move(line));
  changed_.SignalAll();
}

bool LogWriter::Flush(std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  MutexLock lock(&mutex_);
  const int64_t goal = added_;
  while (written_ < goal) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left.count() <= 0) return false;
    changed_.WaitFor(&mutex_, left);
  }
  return true;
}

void LogWriter::Run() {
  for (;;) {
    Line line;
    int64_t dropped = 0;
    {
      MutexLock lock(&mutex_);
      while (waiting_.empty() && !stop_) changed_.Wait(&mutex_);
      if (waiting_.empty()) return;
      line = std::move(waiting_.front());
      waiting_.pop_front();
      progress_ -= line.severity == 'I';
    }
    output_(line);
    {
      MutexLock lock(&mutex_);
      ++written_;
      dropped = std::exchange(dropped_, 0);
      changed_.SignalAll();
    }
    if (dropped > 0) on_dropped_(dropped);
  }
}

namespace {

constexpr std::chrono::milliseconds kFatalLimit{2000};

std::atomic<LogWriter*> writer{nullptr};  // never destroyed: threads log until the process ends
std::atomic<LogWriter*> copy_writer{nullptr};
Mutex recent_mutex;
RecentLines& Recent() HP_REQUIRES(recent_mutex) {
  static auto* const lines = new RecentLines;  // threads log until the process ends
  return *lines;
}

// What glog's flags say where lines go; it does not write anywhere itself once we stand in its place.
struct Destinations {
  bool to_stderr = true;
  int stderr_threshold = 0;  // with files
  google::base::Logger* files[google::NUM_SEVERITIES] = {};
};

int SeverityOf(char letter) {
  for (int severity = 0; severity < google::NUM_SEVERITIES; ++severity) {
    if (google::GetLogSeverityName(severity)[0] == letter) return severity;
  }
  return google::GLOG_INFO;
}

void WriteToStderr(const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // nobody is there to be told
    done += static_cast<size_t>(n);
  }
}

void WriteTo(const Destinations& to, const LogWriter::Line& line) {
  const int severity = SeverityOf(line.severity);
  if (to.to_stderr || severity >= to.stderr_threshold) WriteToStderr(line.text);
  if (to.files[0] == nullptr || line.time == 0) return;
  for (int file = 0; file <= severity; ++file) {
    to.files[file]->Write(severity > google::GLOG_INFO, line.time, line.text.data(), line.text.size());
  }
}

/// The copy first: a terminal that is stopped would take all the time.
void FlushBoth(LogWriter* log, std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  if (LogWriter* const copy = copy_writer) copy->Flush(limit / 2);
  log->Flush(std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()));
}

/// glog hands a line to the logger of its severity and of each lower one: that for INFO sees them all.
class QueueingLogger : public google::base::Logger {
 public:
  explicit QueueingLogger(LogWriter* to) : to_(to) {}
  void Write(bool, time_t time, const char* text, size_t size) override {
    if (to_ == nullptr || size == 0) return;
    to_->Add({text[0], time, std::string(text, size)});
    if (LogWriter* const copy = copy_writer) copy->Add({text[0], time, std::string(text, size)});
    if (MutexLock lock(&recent_mutex); true) Recent().Add(text[0], time, {text, size});
    if (text[0] == 'F') FlushBoth(to_, kFatalLimit);
  }
  void Flush() override {
    if (to_ != nullptr) to_->Flush(kFatalLimit);
  }
  google::uint32 LogSize() override { return 0; }

 private:
  LogWriter* const to_;
};

}  // namespace

void StartLogWriter() {
  Destinations to;
  to.to_stderr = FLAGS_logtostderr || FLAGS_alsologtostderr;
  to.stderr_threshold = FLAGS_stderrthreshold;
  for (int severity = 0; severity < google::NUM_SEVERITIES && !FLAGS_logtostderr; ++severity) {
    to.files[severity] = google::base::GetLogger(severity);
  }
  auto* const log = new LogWriter(
      "log", LogWriter::kMaxWaiting, [to](const LogWriter::Line& line) { WriteTo(to, line); },
      [](int64_t lines) { LOG(WARNING) << lines << " lines of progress were dropped: nobody read the log"; });
  for (int severity = 0; severity < google::NUM_SEVERITIES; ++severity) {
    google::base::SetLogger(severity, new QueueingLogger(severity == google::GLOG_INFO ? log : nullptr));
  }
  FLAGS_logtostderr = FLAGS_alsologtostderr = false;
  FLAGS_stderrthreshold = google::NUM_SEVERITIES;
  writer = log;
}

void CopyLogTo(LogWriter* copy) { copy_writer = copy; }

void FlushLog(std::chrono::milliseconds limit) {
  if (LogWriter* const log = writer) FlushBoth(log, limit);
}

void RecentLines::Add(char severity, time_t time, std::string_view line) {
  const size_t prefix = line.find("] ");
  if (prefix != line.npos) line.remove_prefix(prefix + 2);
  while (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  lines_.push_back({++added_, severity, time, std::string(line)});
  if (severity != 'I') last_warning_ = lines_.back();
  if (lines_.size() <= kMost) return;
  const auto progress =
      std::find_if(lines_.begin(), lines_.end(), [](const LoggedText& kept) { return kept.severity == 'I'; });
  lines_.erase(progress == lines_.end() ? lines_.begin() : progress);
}

std::vector<LoggedText> RecentLines::After(int64_t after) const {
  const auto from =
      std::find_if(lines_.begin(), lines_.end(), [after](const LoggedText& kept) { return kept.number > after; });
  return {from, lines_.end()};
}

LoggedText LastWarning() {
  MutexLock lock(&recent_mutex);
  return Recent().last_warning();
}

std::vector<LoggedText> LinesAfter(int64_t number) {
  MutexLock lock(&recent_mutex);
  return Recent().After(number);
}

void WriteProgress(const std::string& text) {
  if (LogWriter* const log = writer) {
    log->Add({'I', 0, text});
  } else {
    WriteToStderr(text);
  }
}

}  // namespace hp
