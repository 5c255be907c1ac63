#pragma once

#include "base/mutex.h"

#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

namespace hp {

/// The queue of events of one progress thread, in order of the time at which they are due; of events with equal times
/// those that are not bulk run first, then in the order of Post.
class Mailbox {
 public:
  using Event = std::function<void()>;

  /// Queues `event`; dropped after Close. Any thread. @param due_ns by Clock::Real(): it does not run before; 0: at
  /// once.
  void Post(int64_t due_ns, bool bulk, Event event) HP_EXCLUDES(mutex_);
  /// Blocks until an event is due and removes it. The progress thread. @return an empty one: closed.
  Event Next() HP_EXCLUDES(mutex_);
  /// Ends Next, now and later, and drops all queued events. Any thread.
  void Close() HP_EXCLUDES(mutex_);

 private:
  struct Entry {
    int64_t due_ns;
    bool bulk;
    uint64_t sequence;
    mutable Event event;                        // moved out of the queue's const top
    bool operator<(const Entry& other) const {  // the greatest is on top
      return std::tie(other.due_ns, other.bulk, other.sequence) < std::tie(due_ns, bulk, sequence);
    }
  };

  Mutex mutex_;
  CondVar changed_;
  std::priority_queue<Entry> queue_ HP_GUARDED_BY(mutex_);
  uint64_t sequence_ HP_GUARDED_BY(mutex_) = 0;
  bool closed_ HP_GUARDED_BY(mutex_) = false;
};

}  // namespace hp
