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

/// Carries out a node's tasks in the order of the pipeline, on a thread "executor": the one that computes. On a device
/// that queues its work, a few tasks are enqueued at once, so that the device does not wait for the host, and a thread
/// "completion" waits for each and reports it to the pipeline. Owned by the node.
///
/// A task goes: Pipeline::NextTask -> before_task -> Compute::Enqueue -> Pipeline::Enqueued (where the device queues
/// its work) -> [device] -> Compute::Collect -> after_task -> Pipeline::Done. In between the layers of some tasks, on
/// the host's device, urgent ones go the same way (Pipeline::MayInterrupt): a shard beside a replica answers others
/// while the replica's long pass is under way. A kBoundary goes: NextTask -> before_task -> boundary -> Done. All on
/// the executor thread, except that what follows [device] is on "completion" where the device is not the host's.
class Executor {
 public:
  /// No callback is called under a lock. All but `before_task` must be set, and what they use must outlive the
  /// executor.
  struct Options {
    Pipeline* pipeline = nullptr;  ///< must outlive the executor, like the next two
    Compute* compute = nullptr;
    Device* device = nullptr;  ///< that of `compute`
    /// First thing on the executor thread, e.g. to size its OpenMP team. An error ends the executor.
    std::function<Status()> on_start;
    std::function<void(const Task&)> before_task;  ///< null: nothing. For tests that delay a task
    /// Carries out a kBoundary; no task is under way then if it needs that (PipelineHost::BoundaryNeedsDone). An error
    /// ends the executor. "completion" may call after_task meanwhile.
    std::function<Status(const Task& task)> boundary;
    /// The task's results are there, and Pipeline::Done follows. Not for kBoundary. On the thread of Collect.
    /// @param begin_ns by Clock::Real(): when it was begun, or on a device enqueued, maybe behind others.
    std::function<void(const Task&, int64_t begin_ns)> after_task;
    /// Once, last thing on the executor thread, when no task is under way. Ok: the pipeline has finished or was
    /// aborted (Pipeline::finished does not tell which). Else the error of `on_start` or of `boundary`, with the
    /// iteration in front; kResourceExhausted: a task found no memory; or kInternal: the device failed, and the
    /// pipeline was aborted here.
    std::function<void(const Status&)> on_end;
  };

  /// Starts the threads at once: the pipeline must have been made, Start may still follow.
  explicit Executor(Options options);
  /// Waits for the threads, until the pipeline hands out no more tasks: it must have finished, or Pipeline::Abort was
  /// called. Tasks that are under way are finished first.
  ~Executor();

 private:
  /// Tasks that may be enqueued and not done where tensors cross to other nodes: they hide the host's work for one
  /// behind the device's for another. Elsewhere kMostTasksAhead.
  static constexpr size_t kAhead = 3;

  /// A task that was enqueued and is not done.
  struct UnderWay {
    Task task;
    Device::Mark done = 0;
    int64_t begin_ns = 0;
  };

  void Run();
  Status RunTasks();
  Status Carry(const Task& task);
  void CarryUrgent();
  /// Collects the results of a task that is done, and reports it.
  void Finish(const UnderWay& under_way);
  /// The thread "completion".
  void WatchDevice();
  void WaitUntilIdle() HP_EXCLUDES(mutex_);

  const Options options_;
  const size_t ahead_;  // tasks that may be enqueued and not done
  const std::function<void()> between_layers_ = [this] { CarryUrgent(); };
  Mutex mutex_;  // not held while anything of options_ is called, but for Pipeline::Abort
  CondVar changed_;
  std::deque<UnderWay> under_way_ HP_GUARDED_BY(mutex_);  // the first one is being waited for
  Status device_status_ HP_GUARDED_BY(mutex_);
  bool stop_ HP_GUARDED_BY(mutex_) = false;
  Thread executor_, completion_;  // completion_: none on the host's device
};

}  // namespace hp
