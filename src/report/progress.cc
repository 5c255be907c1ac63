#include "report/progress.h"

#include "base/clock.h"
#include "base/format.h"
#include "base/log_writer.h"
#include "report/reporter.h"

#include <unistd.h>

#include <chrono>

namespace hp {
namespace {

std::string Duration(double seconds) {
  const int64_t whole = static_cast<int64_t>(seconds);
  if (whole >= 3600)
    return Format("%lld h %02lld min", static_cast<long long>(whole / 3600), static_cast<long long>(whole / 60 % 60));
  if (whole >= 60)
    return Format("%lld min %02lld s", static_cast<long long>(whole / 60), static_cast<long long>(whole % 60));
  return Format("%lld s", static_cast<long long>(whole));
}

}  // namespace

ProgressBar::ProgressBar(std::function<const Reporter*()> reporter) : reporter_(std::move(reporter)) {
  if (isatty(STDERR_FILENO)) thread_ = Thread("progress bar", [this] { Run(); });
}

ProgressBar::~ProgressBar() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  if (!thread_.joinable()) return;
  thread_.Join();
  WriteProgress("\r\033[K");
}

void ProgressBar::Run() {
  const int64_t begin_ns = Clock::Real()->NowNs();
  for (;;) {
    {
      MutexLock lock(&mutex_);
      if (stop_) return;
      changed_.WaitFor(&mutex_, std::chrono::milliseconds(500));
      if (stop_) return;
    }
    const Reporter* reporter = reporter_();
    if (reporter == nullptr || reporter->samples_done() == 0) continue;
    const double seconds = static_cast<double>(Clock::Real()->NowNs() - begin_ns) / kNsPerSecond;
    const double done = static_cast<double>(reporter->clocks_done() - reporter->start_clock());
    const double left = static_cast<double>(reporter->max_iter() - reporter->clocks_done()) * seconds / done;
    WriteProgress(Format("\r\033[Kiteration %lld of %lld, %.0f images/s, %s left",
                         static_cast<long long>(reporter->clocks_done()), static_cast<long long>(reporter->max_iter()),
                         static_cast<double>(reporter->samples_done()) / seconds, Duration(left).c_str()));
  }
}

}  // namespace hp
