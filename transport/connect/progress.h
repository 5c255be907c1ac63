#pragma once

#include "base/mutex.h"
#include "base/thread.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hp {

/// Something that the progress thread looks after: an endpoint, or a completion queue. Held by shared_ptr while it is
/// scheduled or watched.
class ProgressTask {
 public:
  virtual ~ProgressTask() = default;
  /// Does what was scheduled. Progress thread.
  virtual void Run() = 0;
  /// Looks for something to do. @return whether there was. Progress thread.
  virtual bool Poll() = 0;
  /// It will not be polled any more: wait for readiness instead, which must call ProgressThread::Watch. Progress
  /// thread.
  virtual void Sleep() = 0;

 private:
  friend class ProgressThread;
  std::atomic<bool> scheduled_ = false;
};

/// A transport's one progress thread. It runs an io_context and, for a short time after each thing that happened, polls
/// the tasks it happened to, because waking a thread takes longer than most answers. A task is watched (polled) or
/// asleep (the io_context waits for its readiness); in both, Schedule has its Run called.
class ProgressThread {
 public:
  /// @param spin_ns how long a task is polled after the last thing that happened to it; 0: not at all.
  explicit ProgressThread(int64_t spin_ns) : io_(1), work_(io_.get_executor()), spin_ns_(spin_ns) {}

  /// For sockets and timers, whose handlers run on this thread.
  boost::asio::io_context* io() { return &io_; }
  /// @param name of the thread, for debuggers; Linux shows 15 characters.
  void Start(const std::string& name);
  /// Ends the thread after what it is doing, and joins it. Not from it.
  void Stop();

  /// event() soon, in the order of the calls. Any thread.
  void Post(std::function<void()> event);
  /// task->Run() soon, once for all calls until then. Any thread.
  void Schedule(std::shared_ptr<ProgressTask> task) HP_EXCLUDES(mutex_);
  /// Polls `task` until nothing has happened to it for spin_ns. Progress thread.
  void Watch(std::shared_ptr<ProgressTask> task);
  /// Whether the caller is this thread.
  bool Inside() const;

 private:
  struct Watched {
    std::shared_ptr<ProgressTask> task;
    int64_t until_ns;
  };

  void Loop();
  bool RunScheduled() HP_EXCLUDES(mutex_);
  bool PollWatched();
  void SleepUntilEvent();

  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  const int64_t spin_ns_;
  // Progress thread.
  std::vector<Watched> watched_;
  std::vector<std::shared_ptr<ProgressTask>> running_;  // kept for its memory
  int64_t now_ns_ = 0;                                  // as of the last look at the watched tasks
  std::atomic<bool> stopping_ = false;
  // A poster sets has_work_ and then reads sleeping_; the loop sets sleeping_ and then reads has_work_: one of them
  // sees the other.
  std::atomic<bool> has_work_ = false;
  std::atomic<bool> sleeping_ = false;
  Mutex mutex_;
  std::vector<std::shared_ptr<ProgressTask>> scheduled_ HP_GUARDED_BY(mutex_);
  Thread thread_;
};

}  // namespace hp
