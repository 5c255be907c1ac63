#include "transport/connect/progress.h"

#include "base/clock.h"
#include "base/out_of_memory.h"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

namespace hp {
namespace {

thread_local const ProgressThread* current = nullptr;

// Fruitless polls of watched tasks between two looks at the io_context, which costs about as much as ten of them.
constexpr int kPollsPerIo = 16;

}  // namespace

void ProgressThread::Start(const std::string& name, std::function<void(const Status&)> on_out_of_memory) {
  thread_ = Thread(name, [this, on_out_of_memory = std::move(on_out_of_memory)] { Loop(on_out_of_memory); });
}

void ProgressThread::Stop() {
  stopping_ = true;
  boost::asio::post(io_, [] {});
  thread_.Join();
}

bool ProgressThread::Inside() const { return current == this; }

void ProgressThread::Post(std::function<void()> event) { boost::asio::post(io_, std::move(event)); }

void ProgressThread::Schedule(std::shared_ptr<ProgressTask> task) {
  if (task->scheduled_.exchange(true)) return;
  {
    MutexLock lock(&mutex_);
    scheduled_.push_back(std::move(task));
  }
  has_work_ = true;
  if (sleeping_.exchange(false)) boost::asio::post(io_, [] {});
}

void ProgressThread::WatchUntil(std::shared_ptr<ProgressTask> task, int64_t until_ns) {
  for (Watched& watched : watched_) {
    if (watched.task == task) {
      watched.until_ns = std::max(watched.until_ns, until_ns);
      return;
    }
  }
  watched_.push_back({std::move(task), until_ns});
}

bool ProgressThread::RunScheduled() {
  if (!has_work_.exchange(false)) return false;
  {
    MutexLock lock(&mutex_);
    running_.swap(scheduled_);
  }
  for (const auto& task : running_) {
    task->scheduled_ = false;
    task->Run();
  }
  running_.clear();
  return true;
}

bool ProgressThread::PollWatched() {
  bool worked = false;
  now_ns_ = Clock::Real()->NowNs();
  for (size_t i = 0; i < watched_.size();) {  // by index: Poll may add to the list
    const std::shared_ptr<ProgressTask> task = watched_[i].task;
    if (task->Poll()) {
      watched_[i].until_ns = now_ns_ + spin_ns_;
      worked = true;
    } else if (now_ns_ >= watched_[i].until_ns) {
      watched_[i] = std::move(watched_.back());
      watched_.pop_back();
      task->Sleep();
      continue;
    }
    ++i;
    worked |= RunScheduled();
  }
  return worked;
}

void ProgressThread::SleepUntilEvent() {
  sleeping_ = true;
  if (!has_work_ && !stopping_) io_.run_one();
  sleeping_ = false;
  now_ns_ = Clock::Real()->NowNs();
}

void ProgressThread::Loop(const std::function<void(const Status&)>& on_out_of_memory) {
  current = this;
  while (!stopping_) {
    const Status status = OrOutOfMemory("moving data between nodes", [this] {
      for (int round = 0; !stopping_; ++round) Turn(round);
      return OkStatus();
    });
    if (!status.ok()) on_out_of_memory(status);
  }
  current = nullptr;
}

void ProgressThread::Turn(int round) {
  RunScheduled();
  if (watched_.empty()) {
    if (!has_work_) SleepUntilEvent();
    return;
  }
  if (PollWatched() || round % kPollsPerIo == 0) io_.poll();
}

}  // namespace hp
