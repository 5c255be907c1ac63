#pragma once

#include "base/mutex.h"

#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

namespace hp {

/// Events for one progress thread, each with the real time before which it must not run (0: at once). Of events of
/// equal time those that are not bulk run first, and then in the order of Post.
class Mailbox {
 public:
  using Event = std::function<void()>;

  /// Any thread. Dropped after Close.
  void Post(int64_t due_ns, bool bulk, Event event) HP_EXCLUDES(mutex_);
  /// Waits for the next event that is due. @return an empty one: closed.
  Event Next() HP_EXCLUDES(mutex_);
  /// Ends Next and drops what is queued.
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
