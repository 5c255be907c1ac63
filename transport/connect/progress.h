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
#include <utility>
#include <vector>

namespace hp {

/// Something that the progress thread serves: an endpoint, or a completion queue. The thread holds it by shared_ptr
/// while it is scheduled or watched. All methods are called on the progress thread and must not block.
class ProgressTask {
 public:
  virtual ~ProgressTask() = default;
  /// Does what Schedule was called for.
  virtual void Run() = 0;
  /// Does what can be done without waiting, e.g. receives. @return whether there was anything that more may soon
  /// follow.
  virtual bool Poll() = 0;
  /// Polling ends after this call: start an asynchronous wait for readiness on io(), whose handler calls Watch again.
  virtual void Sleep() = 0;

 private:
  friend class ProgressThread;
  std::atomic<bool> scheduled_ = false;
};

/// The one progress thread of a transport. It runs an io_context, and after each event it polls the task of that event
/// for a short time, because waking a thread takes longer than most answers. A task is either watched (polled) or
/// asleep (the io_context waits for its readiness); Schedule has its Run called in both states.
class ProgressThread {
 public:
  /// @param spin_ns how long a task is polled after its last event, in ns; 0: polled once.
  explicit ProgressThread(int64_t spin_ns) : io_(1), work_(io_.get_executor()), spin_ns_(spin_ns) {}

  /// The io_context for sockets and timers; their handlers run on this thread.
  boost::asio::io_context* io() { return &io_; }
  /// Starts the thread. Once. @param name of the thread, at most 15 characters. @param on_out_of_memory called on it
  /// whenever an event or a task could not have memory (kResourceExhausted); then it goes on.
  void Start(const std::string& name, std::function<void(const Status&)> on_out_of_memory);
  /// Ends the thread after the call that it is in, and joins it; events and tasks that wait are not run. Not from the
  /// thread itself.
  void Stop();

  /// Runs event() on the thread, soon, in the order of the calls. Any thread.
  void Post(std::function<void()> event);
  /// Has task->Run() called soon, once for all calls until then. Any thread; cheap if it is scheduled already.
  void Schedule(std::shared_ptr<ProgressTask> task) HP_EXCLUDES(mutex_);
  /// Polls `task` until it has had no event for spin_ns; then calls its Sleep. Progress thread.
  void Watch(std::shared_ptr<ProgressTask> task) { WatchUntil(std::move(task), now_ns_ + spin_ns_); }
  /// Polls `task` once, and goes on as Watch if there was anything; else calls its Sleep. For what may have been no
  /// more than a heartbeat: in a job of many nodes most connections carry little else. Progress thread.
  void Look(std::shared_ptr<ProgressTask> task) { WatchUntil(std::move(task), now_ns_); }
  /// Whether the calling thread is this one.
  bool Inside() const;

 private:
  struct Watched {
    std::shared_ptr<ProgressTask> task;
    int64_t until_ns;
  };

  void WatchUntil(std::shared_ptr<ProgressTask> task, int64_t until_ns);
  void Loop(const std::function<void(const Status&)>& on_out_of_memory);
  void Turn(int round);
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
