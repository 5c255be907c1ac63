#pragma once

#include "hp/status.h"
#include "proto/rendezvous.pb.h"

#include "rendezvous/roster.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hp {

/// Makes the table for processes that ask. @param due as many as it was said to need, in the order of its nodes.
/// @return the config, with each node's host and port set to the process's, and who has which entry; the other fields
/// are the caller's. An error ends the rendezvous for all of this process.
using TablePlanner = std::function<StatusOr<TableRecord>(const std::vector<NodeRecord>& due)>;

/// How a process gets the table of its run, and says how it goes: one interface over a server, a folder and Redis.
/// Calls block for seconds at most. One thread at a time.
class JobRendezvous {
 public:
  virtual ~JobRendezvous() = default;
  /// Says what the process says of itself, and hears what follows. A process that says the same nonce again, whatever
  /// became of the first answer, gets the same table.
  /// @param record complete but for its beat, which this sets.
  /// @return kUnavailable: it can't be reached now; try again. kInvalidArgument, kFailedPrecondition: it can't work:
  /// another token, no such folder, a planner's error.
  virtual StatusOr<RendezvousAnswer> Tell(NodeRecord record) = 0;
  /// For messages: "tcp://10.0.0.1:29400".
  virtual std::string name() const = 0;
};

/// Says the record again and again until there is an answer other than WAIT. Logs every 15 s what it waits for.
/// @param wait_ms longest time. @return kUnavailable, kDeadlineExceeded: not within that time; says why; else Tell's.
StatusOr<RendezvousAnswer> AwaitTable(JobRendezvous* rendezvous, const NodeRecord& record, int64_t wait_ms);

}  // namespace hp
