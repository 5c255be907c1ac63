#pragma once

#include "hp/status.h"
#include "proto/control.pb.h"

#include <cstdint>
#include <string>

namespace hp {

/// What a page shows of a job: the latest status, and what is remembered of those before it, within bounds. Not
/// thread-safe.
class PageHistory {
 public:
  /// Bounds of what is kept. Of curves every second point is dropped when there are so many, so that they keep their
  /// beginning; of tests the oldest goes, of lines as TrimLines says.
  static constexpr int kMostPoints = 600, kMostTests = 300;

  /// A status, or why there is none. A status of another run (JobStatus::run_id but for the number of its start) or
  /// job begins anew; a start that goes on from an earlier iteration replaces what came after that.
  void Add(const StatusOr<JobStatus>& status);
  /// All of it.
  const JobPageData& data() const { return data_; }

 private:
  void AddPoint(const JobStatus& status);
  void AddTest(const LearningStatus& learning);
  void AddLines(const JobStatus& status);

  JobPageData data_;
  std::string run_, start_;           // which run_id names; start_ is all of it
  int64_t stride_ = 1, skipped_ = 0;  // one point of so many is kept; left out since the last one
  int64_t lines_seen_ = 0;            // the greatest number of this start
  std::string last_order_;
};

}  // namespace hp
