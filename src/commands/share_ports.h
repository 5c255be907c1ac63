#pragma once

#include "base/rank.h"
#include "hp/status.h"
#include "scheduler/plan/routing_table.h"

#include <cstdint>
#include <string>

namespace hp {

/// Tells all nodes of a table on which ports they listen, where they have taken free ones instead of the table's, by a
/// folder that all hosts share, NFS included. Each node writes one file there, the first one also `table.prototxt`: the
/// table with these ports, for hpctl and other clients. Blocks until all nodes have called it; each once.
/// @param own the node that calls. @param port that it listens on.
/// @param folder of this start of the job alone; made if it is not there. @param wait_ms for the other nodes.
/// @return the table with these ports, the same on all nodes. kFailedPrecondition: the folder is of another start;
/// kInvalidArgument: there can't be such a folder; kDataLoss: a file there is not a port; kDeadlineExceeded: a node did
/// not call, and which.
StatusOr<RoutingTable> SharePorts(const RoutingTable& table, Rank own, int port, const std::string& folder,
                                  int64_t wait_ms);

}  // namespace hp
