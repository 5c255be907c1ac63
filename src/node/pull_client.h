#pragma once

#include "base/job_token.h"
#include "checkpoint/weights.h"
#include "hp/status.h"
#include "scheduler/plan/routing_table.h"

#include <optional>

namespace hp {

/// The weights of a running job.
struct PulledModel {
  CaffeModel model;       ///< all blobs of the net; its path names the job, for messages
  int64_t iteration = 0;  ///< updates that they have seen
};

/// Pulls the weights of the job of `table` over TCP, whatever transport its nodes use, from the table's first node,
/// which copies them between two updates (snapshot/pull_server.h). Training does not wait for it. Blocks; may
/// run on any host that reaches the node.
/// @param timeout_ms longest silence: to connect, for the first chunk, and for each further one.
/// @param keys of the job's token, or its read key; none: the job has no token.
/// @return kUnavailable, kDeadlineExceeded: there is no such job, it ended, or it was silent; kInvalidArgument,
/// kFailedPrecondition: something else listens there, or a job with another table; kDataLoss: a chunk can't be read
/// or does not follow on the others; kResourceExhausted: the weights are larger than the host's memory.
StatusOr<PulledModel> PullWeights(const RoutingTable& table, int timeout_ms, const std::optional<JobKeys>& keys);

}  // namespace hp
