#pragma once

#include "hp/status.h"
#include "transport/transport.h"
#include "transport/verbs/memory.h"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace hp {

/// The landing places of the grants that we gave one peer, and which parts of each write have arrived. The grants
/// themselves are in the endpoint core. Guarded by its endpoint's mutex.
class LandingTable {
 public:
  /// A grant whose place is complete.
  struct Arrived {
    RemoteGrant grant;
    Landing landing;  ///< ends with this; its staging still has to be copied, or its memory flushed
  };

  /// Adds a grant that is about to be sent. @param parts number of data queue pairs that the write comes over; 1 to 16.
  void Open(RemoteGrant grant, Landing landing, uint16_t parts);
  /// An immediate arrived on data queue pair `lane`, from 0. Every write uses lane 0, and its immediates there give the
  /// order of writes. @return kInvalidArgument: it names no open grant, or one that expects none on this lane (any
  /// more).
  Status OnImmediate(uint32_t immediate, size_t lane);
  /// Removes and returns the next complete grant, in the order of the writes: nothing while an earlier write is
  /// incomplete.
  std::optional<Arrived> TakeArrived();
  /// Removes a grant that the peer gave back. @return kInvalidArgument: it is not open, or a part was written.
  Status Cancel(RemoteGrant grant);
  /// Removes all grants. @return their landings; release them after the queue pairs are destroyed.
  std::vector<Landing> TakeAll();

 private:
  struct Slot {
    RemoteGrant grant;
    Landing landing;
    uint32_t expected = 0, arrived = 0;  // a bit for each data queue pair
  };

  std::map<uint32_t, Slot> open_;  // by index
  std::deque<uint32_t> written_;   // indices in the order of the writes
};

}  // namespace hp
