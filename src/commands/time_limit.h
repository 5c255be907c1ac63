#pragma once

#include "base/clock.h"

#include <cstdint>
#include <optional>

namespace hp {

/// When a node stops ahead of the end of its allocation, so that the job leaves a snapshot and its batch script can
/// queue it again: at the end itself a scheduler ends the script too. A value.
class TimeLimit {
 public:
  /// No limit.
  TimeLimit() = default;
  /// @param end_s when the allocation ends, in seconds since 1970; 0: not known, no limit. @param before_s how long
  /// before that to stop; 0: never. @param now_s the time now, in seconds since 1970. @param clock must outlive it.
  TimeLimit(int64_t end_s, int before_s, int64_t now_s, const Clock* clock);

  /// Until the stop; 0: now, or the time for it is past. Nothing: there is no limit.
  std::optional<int64_t> LeftNs() const;
  int before_s() const { return before_s_; }

 private:
  std::optional<int64_t> stop_ns_;  // on clock_
  int before_s_ = 0;
  const Clock* clock_ = nullptr;
};

}  // namespace hp
