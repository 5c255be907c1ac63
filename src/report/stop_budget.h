#pragma once

#include "base/clock.h"
#include "base/mutex.h"

#include <cstdint>
#include <string>

namespace hp {

/// Warns, once, when a stop by request would not be done in its time: it takes up to two iterations and, on the first
/// node, a snapshot. Any thread.
class StopBudget {
 public:
  /// @param node name, for the log. @param limit_s what a stop may take, in s; 0: as long as it takes.
  /// @param clock must outlive it.
  StopBudget(std::string node, int limit_s, const Clock* clock)
      : node_(std::move(node)), limit_ns_(limit_s * kNsPerSecond), clock_(clock) {}

  /// An iteration has ended on this node.
  void OnIteration() HP_EXCLUDES(mutex_);
  /// A snapshot was written, from its boundary to its last rename.
  void OnSnapshot(int64_t took_ns) HP_EXCLUDES(mutex_);
  bool warned() const HP_EXCLUDES(mutex_);

 private:
  void Look() HP_REQUIRES(mutex_);

  const std::string node_;
  const int64_t limit_ns_;
  const Clock* const clock_;
  mutable Mutex mutex_;
  int64_t ended_ns_ HP_GUARDED_BY(mutex_) = 0;  // of the latest iteration; 0: none
  int64_t latest_ns_ HP_GUARDED_BY(mutex_) = 0, before_ns_ HP_GUARDED_BY(mutex_) = 0;  // what two iterations took
  int64_t snapshot_ns_ HP_GUARDED_BY(mutex_) = 0;
  bool warned_ HP_GUARDED_BY(mutex_) = false;
};

}  // namespace hp
