#pragma once

#include "base/mutex.h"

#include <functional>
#include <vector>

namespace hp {

/// Keeps events that come before the node is assembled, in their order. Any thread.
class Gate {
 public:
  /// Runs `event` now, or in Open if that has not been called yet.
  void Run(std::function<void()> event) HP_EXCLUDES(mutex_);
  /// Runs what waits, and then lets everything through.
  void Open() HP_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  bool open_ HP_GUARDED_BY(mutex_) = false;
  std::vector<std::function<void()>> waiting_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
