#include "report/curve_file.h"

#include "base/format.h"

#include "glog/logging.h"
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace hp {
namespace {

constexpr char kColumns[] =
    "time_spent,cumulative_time_spent,input_count,cumulative_input_count,cumulative_batch_count,inputs_per_sec,"
    "accuracy,epoch,learning_rate,loss,test_accuracy\n";

std::string FieldOf(const std::optional<double>& value) { return value ? Format("%g", *value) : std::string(); }

/// Whether a run that was killed left half a row at the end.
bool EndsWithinARow(int file) {
  const off_t end = lseek(file, 0, SEEK_END);
  char last = '\n';
  return end > 0 && pread(file, &last, 1, end - 1) == 1 && last != '\n';
}

}  // namespace

StatusOr<std::unique_ptr<CurveFile>> CurveFile::Create(const Options& options) {
  const int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | (options.resumes ? 0 : O_TRUNC);
  const int file = open(options.path.c_str(), flags, 0644);
  if (file < 0) return InvalidArgument("--csv=%s: %s", options.path.c_str(), std::strerror(errno));
  return std::unique_ptr<CurveFile>(new CurveFile(options, file));
}

CurveFile::CurveFile(Options options, int file) : options_(std::move(options)), file_(file) {
  thread_ = Thread("curve file", [this] { Run(); });
}

CurveFile::~CurveFile() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  thread_.Join();
  close(file_);
}

void CurveFile::Add(const CurveRow& row) {
  MutexLock lock(&mutex_);
  rows_.push_back(row);
  changed_.SignalAll();
}

void CurveFile::Run() {
  if (EndsWithinARow(file_)) Write("\n");
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
  seconds_ += row.seconds;
  const int64_t iterations = row.iteration + 1, inputs = iterations * options_.batch;
  const double speed = row.seconds > 0 ? static_cast<double>(row.samples) / row.seconds : 0;
  const double epoch = static_cast<double>(inputs) / static_cast<double>(options_.records);
  return Format("%g,%g,%lld,%lld,%lld,%g,", row.seconds, seconds_, static_cast<long long>(row.samples),
                static_cast<long long>(inputs), static_cast<long long>(iterations), speed) +
         FieldOf(row.accuracy) + Format(",%g,%g,%g,", epoch, row.rate, row.loss) + FieldOf(row.test_accuracy) + "\n";
}

void CurveFile::Write(const std::string& text) {
  if (write(file_, text.data(), text.size()) == static_cast<ssize_t>(text.size())) return;
  if (!std::exchange(warned_, true)) LOG(WARNING) << options_.path << ": " << std::strerror(errno);
}

}  // namespace hp
