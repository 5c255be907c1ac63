#include "data/index.h"

#include <glog/logging.h>

namespace hp {
namespace {

constexpr int64_t kReportIntervalNs = 5 * kNsPerSecond;
constexpr int64_t kRecordsPerClockReading = 256;

}  // namespace

ScanProgress::ScanProgress(std::string source, int64_t expected, const Clock* clock)
    : source_(std::move(source)),
      expected_(expected),
      clock_(clock),
      start_ns_(clock->NowNs()),
      next_report_ns_(start_ns_ + kReportIntervalNs) {}

ScanProgress::~ScanProgress() {
  if (reported_) Report(clock_->NowNs());
}

void ScanProgress::Count(size_t bytes) {
  ++records_;
  bytes_ += static_cast<int64_t>(bytes);
  if (records_ % kRecordsPerClockReading != 0) return;
  const int64_t now_ns = clock_->NowNs();
  if (now_ns < next_report_ns_) return;
  next_report_ns_ = now_ns + kReportIntervalNs;
  reported_ = true;
  Report(now_ns);
}

void ScanProgress::Report(int64_t now_ns) {
  const double seconds = static_cast<double>(now_ns - start_ns_) / kNsPerSecond;
  const std::string of = expected_ > 0 ? " of " + std::to_string(expected_) : "";
  LOG(INFO) << "Indexing " << source_ << ": " << records_ << of << " records, "
            << static_cast<int64_t>(static_cast<double>(records_) / seconds) << " records/s, " << bytes_ / 1000000
            << " MB";
}

}  // namespace hp
