#pragma once

#include "base/clock.h"

#include <cstdint>
#include <string>

namespace hp {

/// Logs the progress of a pass over many records: a line every 5 s with records, records/s and MB, and one at the end.
/// A pass of less than 5 s logs nothing. One thread.
class Progress {
 public:
  /// @param what starts each line, e.g. "Indexing /data/train". @param expected number of records; 0: unknown.
  Progress(std::string what, int64_t expected, const Clock* clock = Clock::Real());
  ~Progress();  ///< writes the last line
  /// Counts one record; call it for each. @param bytes of the record.
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
