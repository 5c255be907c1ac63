#pragma once

#include "hp/status.h"
#include "proto/control.pb.h"

#include <cstdint>
#include <map>
#include <string>

namespace hp {

/// What a page shows of a job: the latest status, and what is remembered of those before it, within bounds. Not
/// thread-safe.
class PageHistory {
 public:
  /// Bounds of what is kept. Of curves every second point is dropped when there are so many, so that they keep their
  /// beginning; of tests and lines the oldest goes.
  static constexpr int kMostPoints = 600, kMostTests = 300, kMostLines = 40;

  /// A status, or why there is none. A status of another run (JobStatus::run_id but for the number of its start) or
  /// job begins anew; a start that goes on from an earlier iteration replaces what came after that.
  void Add(const StatusOr<JobStatus>& status);
  /// All of it.
  const JobPageData& data() const { return data_; }

 private:
  void AddPoint(const JobStatus& status);
  void AddTest(const LearningStatus& learning);
  void AddLines(const JobStatus& status);
  /// Adds a line that is another one than the `latest` of its kind.
  void AddLine(const std::string& node, int64_t time_s, const std::string& text, std::string* latest);

  JobPageData data_;
  std::string run_;
  int64_t stride_ = 1, skipped_ = 0;          // one point of so many is kept; left out since the last one
  std::map<std::string, std::string> lines_;  // the latest of each node
  std::string last_order_;
};

}  // namespace hp
