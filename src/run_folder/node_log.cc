#include "run_folder/node_log.h"

#include "base/format.h"

#include "glog/logging.h"

#include <utility>

namespace hp {
namespace {

constexpr char kAction = 'A';  // as a line's severity: the next of actions_

}  // namespace

NodeLog::NodeLog(int64_t most_bytes)
    : most_bytes_(most_bytes),
      writer_(
          "node log", LogWriter::kMaxWaiting, [this](const LogWriter::Line& line) { Write(line); },
          [this](int64_t lines) {
            Add(Format("%lld lines of progress are left out: the disk was too slow", static_cast<long long>(lines)));
          }) {}

void NodeLog::Open(const std::string& path) {
  Then([this, path] {
    path_ = path;
    file_ = std::make_unique<RotatingLog>(path, most_bytes_);
    for (const std::string& line : std::exchange(early_, {})) Add(line);
  });
}

void NodeLog::Then(std::function<void()> action) {
  MutexLock lock(&mutex_);
  actions_.push_back(std::move(action));
  writer_.Add({kAction, 0, ""});  // under the lock, so that both queues have one order
}

void NodeLog::Write(const LogWriter::Line& line) {
  if (line.severity == kAction) {
    std::function<void()> action;
    {
      MutexLock lock(&mutex_);
      action = std::move(actions_.front());
      actions_.pop_front();
    }
    action();
    return;
  }
  Add(line.text.substr(0, line.text.find_last_not_of('\n') + 1));
}

void NodeLog::Add(const std::string& line) {
  if (!file_) {
    early_.push_back(line);
    if (early_.size() > kMostEarlyLines) early_.pop_front();
    return;
  }
  const Status added = file_->Add(line);
  if (added.ok() || std::exchange(warned_, true)) return;
  LOG(WARNING) << added.message() << "; lines are missing there, and training goes on";
}

}  // namespace hp
