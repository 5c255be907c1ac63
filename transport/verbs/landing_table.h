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

/// Where the grants that we gave one peer land, and what has arrived of each. The grants themselves are the endpoint
/// core's. Its endpoint's mutex guards it.
class LandingTable {
 public:
  struct Arrived {
    RemoteGrant grant;
    Landing landing;
  };

  /// @param parts data queue pairs that the write comes over; 1 to 16.
  void Open(RemoteGrant grant, Landing landing, uint16_t parts);
  /// An immediate arrived on data queue pair `lane`; the first one sees every write, in their order.
  /// @return kInvalidArgument: it belongs to no open grant, or that one expects none on this queue pair (any more).
  Status OnImmediate(uint32_t immediate, size_t lane);
  /// Removes and returns the next grant of which everything is there, in the order of the writes.
  std::optional<Arrived> TakeArrived();
  /// Removes a grant that was given back. @return kInvalidArgument: not open, or written to.
  Status Cancel(RemoteGrant grant);
  /// Removes all. @return their landings, to be released when nothing can arrive any more.
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
