#pragma once

#include <mutex>
#include <shared_mutex>

namespace hp {

/// A collective's kernel occupies its GPU from its launch until those on all other GPUs are launched. Some calls of
/// CUDA (allocations, recordings) may wait until GPUs of the process are idle, and keep launches waiting. So while a
/// collective is launched on several GPUs of this process none of these calls may be under way, on any of its threads:
/// it would wait for a kernel that waits for one behind the call.
///
/// Such a launch. Waits until calls that are under way have returned, one of which may wait for earlier collectives.
class LaunchOnSeveralDevices {
 public:
  LaunchOnSeveralDevices();

 private:
  const std::unique_lock<std::shared_mutex> lock_;
};

/// A call that may wait for devices. Waits for launches under way. Not within another one of the same thread.
class CallThatMayWaitForDevices {
 public:
  CallThatMayWaitForDevices();

 private:
  const std::shared_lock<std::shared_mutex> lock_;
};

}  // namespace hp
