#pragma once

#include "base/clock.h"

#include <cstdint>
#include <string>

namespace hp {

/// Logs how a long pass over records gets on: the first line after some seconds, so that a short one logs nothing.
class Progress {
 public:
  /// @param what e.g. "Indexing /data/train". @param expected number of records, 0: unknown.
  Progress(std::string what, int64_t expected, const Clock* clock = Clock::Real());
  ~Progress();
  /// Call for each record.
  void Count(size_t bytes);

 private:
  void Report(int64_t now_ns);

  const std::string what_;
  const int64_t expected_;
  const Clock* const clock_;
  const int64_t start_ns_;
  int64_t next_report_ns_;
  int64_t records_ = 0, bytes_ = 0;
  bool reported_ = false;
};

}  // namespace hp
