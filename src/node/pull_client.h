#pragma once

#include "checkpoint/weights.h"
#include "hp/status.h"
#include "scheduler/plan/routing_table.h"

namespace hp {

/// The weights of a running job, pulled over TCP from the table's first node, which copies them between two updates.
/// Training does not wait for it.
struct PulledModel {
  CaffeModel model;
  int64_t iteration = 0;
};

/// @param timeout_ms for the first answer, and for each further piece.
/// @return kUnavailable: there is no such job, or it ended; kFailedPrecondition: it runs another table.
StatusOr<PulledModel> PullWeights(const RoutingTable& table, int timeout_ms);

}  // namespace hp
