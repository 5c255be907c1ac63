// On the host's device Enqueue computes, so the executor thread finishes each task before it asks for the next. On
// other devices it enqueues a few tasks ahead and "completion" waits for the oldest: the pipeline learns of each task
// when it is enqueued, so that those which need only this node's work follow it in the device's order, and when it is
// done. The device always has a next task, and never waits for the host between two. A boundary needs no special care:
// where it reads what earlier tasks compute, the pipeline hands it out only when these are done. When the device
// fails, "completion" aborts the pipeline, which ends the executor's loop.
//
// How many are ahead: where tensors cross to other nodes few (kAhead), because what is enqueued can't be overtaken any
// more by a pass that a peer waits for. Elsewhere nobody overtakes, and tasks may be short: with one micro-batch an
// iteration has four, a forward pass, a backward pass, an update, and its end, which is empty. With 3 tasks ahead the
// device would often have no more than that end and the task that it computes. kMostTasksAhead is two iterations, which
// are all that may be under way anyway (none begins before the verdict on the one before the last).
#include "engine/executor.h"

#include "base/clock.h"
#include "base/format.h"
#include "base/out_of_memory.h"
#include "engine/tasks_ahead.h"

#include "glog/logging.h"

#include <utility>

namespace hp {

Executor::Executor(Options options)
    : options_(std::move(options)), ahead_(options_.pipeline->has_ports() ? kAhead : kMostTasksAhead) {
  static_assert(kAhead <= kMostTasksAhead);
  if (!options_.device->is_host()) completion_ = Thread("completion", [this] { WatchDevice(); });
  executor_ = Thread("executor", [this] { Run(); });
}

Executor::~Executor() {
  executor_.Join();
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  completion_.Join();
}

void Executor::Run() {
  Status status = OrOutOfMemory("computing", [this] {
    HP_RETURN_IF_ERROR(options_.on_start());
    return RunTasks();
  });
  WaitUntilIdle();
  if (status.ok()) {
    MutexLock lock(&mutex_);
    status = device_status_;
  }
  options_.on_end(status);
}

Status Executor::RunTasks() {
  while (const std::optional<Task> task = options_.pipeline->NextTask()) {
    if (options_.before_task) options_.before_task(*task);
    HP_RETURN_IF_ERROR(Carry(*task).Prepend(Format("iteration %lld", static_cast<long long>(task->clock))));
  }
  return OkStatus();
}

Status Executor::Carry(const Task& task) {
  UnderWay under_way{task, 0, Clock::Real()->NowNs()};
  if (task.kind == Task::kBoundary) {
    HP_RETURN_IF_ERROR(options_.boundary(task));
    options_.pipeline->Done(task);
    return OkStatus();
  }
  options_.device->BeginRange(Describe(task));
  const bool interruptible = options_.pipeline->MayInterrupt(task);
  under_way.done = options_.compute->Enqueue(task, interruptible ? &between_layers_ : nullptr);
  options_.device->EndRange();
  if (options_.device->is_host()) {
    Finish(under_way);
    return OkStatus();
  }
  options_.pipeline->Enqueued(task);  // ahead of Done
  MutexLock lock(&mutex_);
  if (!device_status_.ok()) return device_status_;  // nobody waits for the device any more
  under_way_.push_back(under_way);
  changed_.SignalAll();
  while (under_way_.size() >= ahead_ && device_status_.ok()) changed_.Wait(&mutex_);
  return device_status_;
}

void Executor::CarryUrgent() {
  while (const std::optional<Task> task = options_.pipeline->TryUrgentTask()) {
    if (options_.before_task) options_.before_task(*task);
    const Status carried = Carry(*task);
    CHECK(carried.ok()) << carried;  // a boundary may fail, or a device that queues its work
  }
}

void Executor::Finish(const UnderWay& under_way) {
  options_.compute->Collect(under_way.task);
  VLOG(1) << Describe(under_way.task)
          << Format(": %.2f ms", static_cast<double>(Clock::Real()->NowNs() - under_way.begin_ns) / 1e6);
  options_.after_task(under_way.task, under_way.begin_ns);
  options_.pipeline->Done(under_way.task);
}

void Executor::WatchDevice() {
  for (;;) {
    UnderWay first;
    {
      MutexLock lock(&mutex_);
      while (under_way_.empty() && !stop_) changed_.Wait(&mutex_);
      if (under_way_.empty()) return;
      first = under_way_.front();
    }
    Status status = options_.device->Wait(first.done);
    if (status.ok()) {
      status = OrOutOfMemory("computing", [&] {
        Finish(first);
        return OkStatus();
      });
    }
    MutexLock lock(&mutex_);
    under_way_.pop_front();
    if (!status.ok()) {
      device_status_ = status;
      under_way_.clear();
      options_.pipeline->Abort();
    }
    changed_.SignalAll();
    if (!status.ok()) return;
  }
}

void Executor::WaitUntilIdle() {
  MutexLock lock(&mutex_);
  while (!under_way_.empty()) changed_.Wait(&mutex_);
}

}  // namespace hp
