#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "engine/compute.h"
#include "hp/status.h"
#include "scheduler/pipeline/pipeline.h"
#include "tensor/device.h"

#include <deque>
#include <functional>

namespace hp {

/// Carries out a node's tasks in the order of the pipeline: the one thread that computes. Where a device queues its
/// work, a task is given to it while earlier ones are still under way, so that it does not wait for the host, and a
/// second thread says when each is done.
class Executor {
 public:
  struct Options {
    Pipeline* pipeline = nullptr;
    Compute* compute = nullptr;
    Device* device = nullptr;
    std::function<void()> on_start;                 ///< executor thread, first
    std::function<void(const Task&)> before_task;   ///< may be null: for tests that delay it
    std::function<Status(int64_t clock)> boundary;  ///< Task::kBoundary: nothing is under way then
    std::function<void(const Task&)> after_task;    ///< its results are there; before the pipeline is told
    /// Once, at the end: ok, the pipeline has no more tasks; else what `boundary` said, or the device failed.
    std::function<void(const Status&)> on_end;
  };

  explicit Executor(Options options);
  /// The pipeline must have ended or been aborted.
  ~Executor();

 private:
  /// Tasks that may be under way at once: what hides the host's part of one behind the other.
  static constexpr size_t kAhead = 3;

  struct UnderWay {
    Task task;
    Device::Mark done = 0;
    int64_t begin_ns = 0;
  };

  void Run();
  Status RunTasks();
  Status Carry(const Task& task);
  /// The results of a task that is done.
  void Finish(const UnderWay& under_way);
  void WatchDevice();
  void WaitUntilIdle() HP_EXCLUDES(mutex_);

  const Options options_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<UnderWay> under_way_ HP_GUARDED_BY(mutex_);  // the first one is being waited for
  Status device_status_ HP_GUARDED_BY(mutex_);
  bool stop_ HP_GUARDED_BY(mutex_) = false;
  Thread executor_, completion_;
};

}  // namespace hp
