#include "report/node_trace.h"

#include "base/format.h"
#include "base/trace_events.h"
#include "scheduler/control/exchange_tag.h"
#include "scheduler/control/slice_tag.h"
#include "scheduler/pipeline/trace_names.h"

#include "glog/logging.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

namespace hp {
namespace {

constexpr char kTail[] = "\n]\n";

int64_t NsSinceMidnight() {
  const auto now = std::chrono::system_clock::now();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now - std::chrono::floor<std::chrono::days>(now)).count();
}

std::string NameOf(const PlaceTag& tag, const std::string& from, const std::string& to) {
  if (IsExchangeTag(tag)) {
    return TraceNameOfExchange(static_cast<int>(ExchangeStage(tag)), ExchangeClock(tag), ExchangeNumber(tag), from, to);
  }
  if (IsSliceTag(tag)) return Format("snapshot %s > %s", from.c_str(), to.c_str());
  return TraceNameOfTensor(tag, from, to);
}

}  // namespace

NodeTrace::File::File(std::ofstream file, std::string node)
    : node_(std::move(node)),
      file_(std::move(file)),
      writer_(
          "trace", kMaxWaiting,
          [this](const LogWriter::Line& line) {
            if (failed_) return;
            failed_ = !(file_ << line.text).good();
            if (line.text == kTail) file_.close();  // whoever ended it may look at it
            if (failed_) LOG(WARNING) << "node " << node_ << ": its trace ends here, it cannot be written";
          },
          [this](int64_t events) { LOG(WARNING) << "node " << node_ << ": its trace lacks " << events << " events"; }) {
}

NodeTrace::NodeTrace(std::string folder, std::vector<std::string> names, Rank self, const Clock* clock)
    : folder_(std::move(folder)),
      names_(std::move(names)),
      self_(self),
      clock_(clock),
      offset_ns_(NsSinceMidnight() - clock->NowNs()) {}

NodeTrace::~NodeTrace() { End(); }

std::string NodeTrace::Head() const {
  std::string head = "[\n" + TraceProcess(self_, names_[self_]);
  head += ",\n" + TraceTrack(self_, kExecutor, kExecutorTrack);
  head += ",\n" + TraceTrack(self_, kLinkOut, kLinkOutTrack);
  return head + ",\n" + TraceTrack(self_, kLinkIn, kLinkInTrack);
}

Status NodeTrace::Begin() {
  if (on_) return OkStatus();
  std::unique_ptr<File> ended;
  {
    MutexLock lock(&mutex_);
    ended = std::move(ended_);
  }
  ended.reset();  // outside the lock: it may wait for the disk
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const std::string path = folder_ + "/" + names_.at(self_) + ".json";
  std::ofstream file(path, std::ios::trunc);
  if (!file) return InvalidArgument("cannot write the trace %s: %s", path.c_str(), std::strerror(errno));
  auto begun = std::make_unique<File>(std::move(file), names_[self_]);
  begun->Add(Head());
  MutexLock lock(&mutex_);
  file_ = std::move(begun);
  on_ = true;
  return OkStatus();
}

void NodeTrace::End() {
  MutexLock lock(&mutex_);
  if (!on_.exchange(false)) return;
  file_->Add(kTail);
  ended_ = std::move(file_);
  writes_.clear();
}

void NodeTrace::Add(std::string event) {
  MutexLock lock(&mutex_);
  if (file_) file_->Add(",\n" + std::move(event));
}

void NodeTrace::OnTask(const Task& task, int64_t begin_ns, int64_t end_ns) {
  if (!on_) return;
  Add(TraceSpan(self_, kExecutor, TraceName(task), SystemNs(begin_ns), end_ns - begin_ns));
}

void NodeTrace::OnWait(Wait wait, int64_t begin_ns, int64_t end_ns) {
  if (!on_) return;
  Add(TraceSpan(self_, kExecutor, TraceName(wait), SystemNs(begin_ns), end_ns - begin_ns));
}

void NodeTrace::OnWrite(Rank peer, const PlaceTag& tag) {
  if (!on_) return;
  MutexLock lock(&mutex_);
  writes_[{peer, tag}] = clock_->NowNs();
}

void NodeTrace::OnWriteEnded(Rank peer, const PlaceTag& tag) {
  if (!on_) return;
  int64_t begin_ns = 0;
  {
    MutexLock lock(&mutex_);
    const auto write = writes_.extract({peer, tag});
    if (!write) return;
    begin_ns = write.mapped();
  }
  Add(TraceSpan(self_, kLinkOut, NameOf(tag, names_[self_], names_[peer]), SystemNs(begin_ns),
                clock_->NowNs() - begin_ns));
}

void NodeTrace::OnArrived(Rank peer, const PlaceTag& tag) {
  if (!on_) return;
  Add(TraceMoment(self_, kLinkIn, NameOf(tag, names_[peer], names_[self_]), SystemNs(clock_->NowNs())));
}

}  // namespace hp
