#pragma once

#include "base/mutex.h"

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

namespace hp {

/// A bounded first-in-first-out queue between threads; `Close` ends both sides.
template <typename T>
class BlockingQueue {
 public:
  explicit BlockingQueue(size_t capacity) : capacity_(capacity) {}

  /// Blocks while full. @return false: closed, `item` was not taken.
  bool Push(T item) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    while (items_.size() >= capacity_ && !closed_) changed_.Wait(&mutex_);
    if (closed_) return false;
    items_.push_back(std::move(item));
    changed_.SignalAll();
    return true;
  }
  /// Blocks while empty. @return nothing: closed and drained.
  std::optional<T> Pop() HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    while (items_.empty() && !closed_) changed_.Wait(&mutex_);
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    changed_.SignalAll();
    return item;
  }
  void Close() HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    closed_ = true;
    changed_.SignalAll();
  }

 private:
  const size_t capacity_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<T> items_ HP_GUARDED_BY(mutex_);
  bool closed_ HP_GUARDED_BY(mutex_) = false;
};

}  // namespace hp
