#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "transport/copy/device_copier.h"

#include <deque>
#include <functional>
#include <string>

namespace hp {

/// Makes a node's device copy: its thread puts copies into the device's queue in the order of Push, without waiting for
/// those before, and reports each when it is done. What the processors copy in microseconds is done by who pushes it,
/// since to wake a thread costs half as much or more. The only user of the copier's methods that are for one thread at
/// a time.
class CopyQueue {
 public:
  /// Puts work into the device's queue by the copier. @return an error: nothing was put there.
  using Begin = std::function<Status()>;
  /// Gets Begin's error, or, when the work that it started is done, DeviceCopier::Wait's result.
  using Done = std::function<void(const Status&)>;

  /// @param copier must outlive it.
  explicit CopyQueue(DeviceCopier* copier) : copier_(copier) {}
  ~CopyQueue() { Stop(); }

  /// Starts the thread. Once.
  void Start(const std::string& thread_name);
  /// Queues a job, before or after Start; any thread, never blocks. `begin` and `done` are called once each, one at a
  /// time, in the order of Push and without a lock, on the queue's thread or in RunHere, unless Stop comes first.
  void Push(Begin begin, Done done) HP_EXCLUDES(mutex_);
  /// As Push, of a job after which the caller calls RunHere, without a lock that a job takes: no thread is woken yet.
  void PushToRunHere(Begin begin, Done done) HP_EXCLUDES(mutex_);
  /// Runs the job on this thread if it is the only one and none is under way; else the queue's thread does.
  void RunHere() HP_EXCLUDES(mutex_);
  /// Waits for the work that has begun, drops the rest, and joins the thread: no `done` is called any more. Jobs that
  /// are pushed later are dropped, too. Not from the queue's thread, nor from a job.
  void Stop() HP_EXCLUDES(mutex_);

 private:
  struct Job {
    Begin begin;
    Done done;
  };
  struct UnderWay {
    Done done;
    Status status;  // of begin
    DeviceCopier::Mark mark = 0;
  };

  void Run() HP_EXCLUDES(mutex_);
  /// Waits for jobs if none is under way (`wait`), and in any case while RunHere runs one. @return those there are.
  std::deque<Job> Take(bool wait) HP_EXCLUDES(mutex_);
  UnderWay Started(Job job);
  /// Waits for it and reports it.
  void End(const UnderWay& job) HP_EXCLUDES(mutex_);
  bool stopping() HP_EXCLUDES(mutex_);

  DeviceCopier* const copier_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Job> jobs_ HP_GUARDED_BY(mutex_);
  bool stopping_ HP_GUARDED_BY(mutex_) = false;
  enum class Runner { kNobody, kThread, kHere };
  Runner runner_ HP_GUARDED_BY(mutex_) = Runner::kNobody;  // has taken jobs that have not all ended
  Thread thread_;
};

}  // namespace hp
