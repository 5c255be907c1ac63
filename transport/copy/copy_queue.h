#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "transport/copy/device_copier.h"

#include <deque>
#include <functional>
#include <string>

namespace hp {

/// The thread that talks to a node's GPU about copies: it puts them into the GPU's queue in the order of Push, some
/// ahead of each other, and says when each is done.
class CopyQueue {
 public:
  /// Puts work into the GPU's queue; an error: none was put there.
  using Begin = std::function<Status()>;
  /// What Begin said, or else, when its work is done, what the GPU said.
  using Done = std::function<void(const Status&)>;

  explicit CopyQueue(DeviceCopier* copier) : copier_(copier) {}
  ~CopyQueue() { Stop(); }

  void Start(const std::string& thread_name);
  /// Before or after Start. `begin` and `done` are called once each on the queue's thread, in the order of Push, unless
  /// Stop comes first.
  void Push(Begin begin, Done done) HP_EXCLUDES(mutex_);
  /// Waits for the work that has begun, and forgets the rest: `done` is not called any more. What is pushed later is
  /// forgotten, too.
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
  /// Waits for jobs if none is under way. @return those there are.
  std::deque<Job> Take(bool wait) HP_EXCLUDES(mutex_);
  UnderWay Started(Job job);
  bool stopping() HP_EXCLUDES(mutex_);

  DeviceCopier* const copier_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Job> jobs_ HP_GUARDED_BY(mutex_);
  bool stopping_ HP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace hp
