#include "report/curve_file.h"

#include "base/format.h"
#include "base/input_file.h"

#include "glog/logging.h"
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace hp {
namespace {

constexpr char kColumns[] =
    "time_spent,cumulative_time_spent,input_count,cumulative_input_count,cumulative_batch_count,inputs_per_sec,"
    "accuracy,epoch,learning_rate,loss,test_accuracy\n";

std::string FieldOf(const std::optional<double>& value) { return value ? Format("%g", *value) : std::string(); }

/// Field `index` of a row.
double FieldAt(std::string_view row, int index) {
  for (int i = 0; i < index && !row.empty(); ++i) row.remove_prefix(std::min(row.size(), row.find(',') + 1));
  return std::strtod(std::string(row.substr(0, row.find(','))).c_str(), nullptr);
}

constexpr int kSecondsField = 1, kIterationsField = 4;

/// A test's row has no time_spent.
bool IsTest(std::string_view row) { return row.starts_with(','); }

}  // namespace

StatusOr<std::unique_ptr<CurveFile>> CurveFile::Create(const Options& options) {
  const int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | (options.start > 0 ? 0 : O_TRUNC);
  const int file = open(options.path.c_str(), flags, 0644);
  if (file < 0) return InvalidArgument("--csv=%s: %s", options.path.c_str(), std::strerror(errno));
  std::unique_ptr<CurveFile> curves(new CurveFile(options, file));
  HP_RETURN_IF_ERROR(curves->KeepRows());
  curves->thread_ = Thread("curve file", [self = curves.get()] { self->Run(); });
  return curves;
}

CurveFile::CurveFile(Options options, int file) : options_(std::move(options)), file_(file) {}

// What a run wrote behind the snapshot that this one begins at is written again, its test included, and so is half a
// row.
Status CurveFile::KeepRows() {
  if (options_.start == 0) return OkStatus();
  HP_ASSIGN_OR_RETURN(const std::string text, ReadInputFile(options_.path));
  if (text.empty()) return OkStatus();
  if (!text.starts_with(kColumns)) {
    return InvalidArgument("--csv=%s: is another table than hpnode writes; name another file", options_.path.c_str());
  }
  size_t keep = sizeof(kColumns) - 1;
  for (size_t end; (end = text.find('\n', keep)) != std::string::npos; keep = end + 1) {
    const std::string_view row(text.data() + keep, end - keep);
    const double behind = FieldAt(row, kIterationsField) - static_cast<double>(options_.start);
    if (behind > 0 || (behind == 0 && IsTest(row))) break;
    seconds_ = FieldAt(row, kSecondsField);
  }
  if (ftruncate(file_, static_cast<off_t>(keep)) == 0) return OkStatus();
  return InvalidArgument("--csv=%s: %s", options_.path.c_str(), std::strerror(errno));
}

CurveFile::~CurveFile() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.Join();
  close(file_);
}

void CurveFile::Add(const CurveRow& row) {
  MutexLock lock(&mutex_);
  rows_.push_back(row);
  changed_.SignalAll();
}

void CurveFile::Run() {
  if (lseek(file_, 0, SEEK_END) == 0) Write(kColumns);
  for (;;) {
    CurveRow row;
    {
      MutexLock lock(&mutex_);
      while (rows_.empty() && !stop_) changed_.Wait(&mutex_);
      if (rows_.empty()) return;
      row = rows_.front();
      rows_.pop_front();
    }
    Write(TextOf(row));
  }
}

std::string CurveFile::TextOf(const CurveRow& row) {
  const bool test = row.test_accuracy.has_value();
  const double seconds = seconds_ + row.seconds;
  if (!test) seconds_ = seconds;  // a test's time is part of the next display's
  const int64_t iterations = row.iteration + (test ? 0 : 1), inputs = iterations * options_.batch;
  const std::string sums = Format("%lld,%lld,", static_cast<long long>(inputs), static_cast<long long>(iterations));
  std::optional<double> epoch;
  if (options_.records > 0) epoch = static_cast<double>(inputs) / static_cast<double>(options_.records);
  if (test) return Format(",%g,,", seconds) + sums + ",," + FieldOf(epoch) + ",,," + FieldOf(row.test_accuracy) + "\n";
  const double speed = row.seconds > 0 ? static_cast<double>(row.samples) / row.seconds : 0;
  return Format("%g,%g,%lld,", row.seconds, seconds, static_cast<long long>(row.samples)) + sums +
         Format("%g,", speed) + FieldOf(row.accuracy) + "," + FieldOf(epoch) + Format(",%g,%g,\n", row.rate, row.loss);
}

void CurveFile::Write(const std::string& text) {
  errno = 0;
  if (write(file_, text.data(), text.size()) == static_cast<ssize_t>(text.size())) return;
  if (!std::exchange(warned_, true)) {
    LOG(WARNING) << options_.path << ": " << (errno != 0 ? std::strerror(errno) : "a row was written in part");
  }
}

}  // namespace hp
