#include "data/progress.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

namespace hp {
namespace {

constexpr int64_t kReportIntervalNs = 5 * kNsPerSecond;
constexpr int64_t kRecordsPerClockReading = 64;

}  // namespace

Progress::Progress(std::string what, int64_t expected, const Clock* clock)
    : what_(std::move(what)),
      expected_(expected),
      clock_(clock),
      start_ns_(clock->NowNs()),
      next_report_ns_(start_ns_ + kReportIntervalNs) {}

Progress::~Progress() {
  if (reported_) Report(clock_->NowNs());
}

void Progress::Count(size_t bytes) {
  ++records_;
  bytes_ += static_cast<int64_t>(bytes);
  if (records_ % kRecordsPerClockReading != 0) return;
  const int64_t now_ns = clock_->NowNs();
  if (now_ns < next_report_ns_) return;
  next_report_ns_ = now_ns + kReportIntervalNs;
  reported_ = true;
  Report(now_ns);
}

void Progress::Report(int64_t now_ns) {
  const double seconds = static_cast<double>(std::max<int64_t>(now_ns - start_ns_, 1)) / kNsPerSecond;
  const std::string of = expected_ > 0 ? " of " + std::to_string(expected_) : "";
  LOG(INFO) << what_ << ": " << records_ << of << " records, "
            << static_cast<int64_t>(static_cast<double>(records_) / seconds) << " records/s, " << bytes_ / 1000000
            << " MB";
}

}  // namespace hp
