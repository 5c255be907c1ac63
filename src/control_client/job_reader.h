#pragma once

#include "hp/status.h"
#include "node/job_client.h"
#include "scheduler/plan/routing_table.h"

#include <functional>
#include <memory>
#include <optional>

namespace hp {

/// Asks a job how it is, again and again, whatever becomes of it: connects when it is first asked, and again after the
/// job went or another table took its place. One thread.
class JobReader {
 public:
  /// The job's table as it is now; an error: there is none, and why.
  using FindTable = std::function<StatusOr<RoutingTable>()>;

  JobReader(FindTable find_table, JobClient::Options options)
      : find_table_(std::move(find_table)), options_(std::move(options)) {}

  /// Blocks for JobClient::Options::timeout_ms at most twice. @return why there is no status, which may change.
  StatusOr<JobStatus> Ask();

 private:
  Status Connect();

  const FindTable find_table_;
  const JobClient::Options options_;
  std::optional<RoutingTable> table_;  // that `client_` refers to
  std::unique_ptr<JobClient> client_;  // null: not connected
};

}  // namespace hp
