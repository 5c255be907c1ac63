#pragma once

#include "base/mutex.h"

#include <functional>
#include <vector>

namespace hp {

/// Delays events that arrive before the node is assembled. Peers start at different times: the first grants and labels
/// may come while this node still allocates its memory. Events run under no lock. Any thread.
class Gate {
 public:
  /// Runs `event` at once on the caller's thread if the gate is open, else keeps it for Open. So it must own what it
  /// needs.
  void Run(std::function<void()> event) HP_EXCLUDES(mutex_);
  /// Runs the kept events on the caller's thread, in the order of Run, those that come meanwhile included; then the
  /// gate is open. Once.
  void Open() HP_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  bool open_ HP_GUARDED_BY(mutex_) = false;  // nothing waits any more
  std::vector<std::function<void()>> waiting_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
