#include "transport/inproc/mailbox.h"

#include "base/clock.h"

#include <utility>

namespace hp {

void Mailbox::Post(int64_t due_ns, bool bulk, Event event) {
  MutexLock lock(&mutex_);
  if (closed_) return;
  queue_.push({due_ns, bulk, sequence_++, std::move(event)});
  changed_.Signal();
}

Mailbox::Event Mailbox::Next() {
  MutexLock lock(&mutex_);
  while (!closed_) {
    if (queue_.empty()) {
      changed_.Wait(&mutex_);
      continue;
    }
    const int64_t due_ns = queue_.top().due_ns;
    const int64_t wait_ns = due_ns == 0 ? 0 : due_ns - Clock::Real()->NowNs();
    if (wait_ns <= 0) {
      Event event = std::move(queue_.top().event);
      queue_.pop();
      return event;
    }
    changed_.WaitFor(&mutex_, std::chrono::nanoseconds(wait_ns));
  }
  return {};
}

void Mailbox::Close() {
  std::priority_queue<Entry> dropped;  // destroyed without the lock: events own links
  MutexLock lock(&mutex_);
  closed_ = true;
  dropped.swap(queue_);
  changed_.SignalAll();
}

}  // namespace hp
