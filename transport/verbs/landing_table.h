#pragma once

#include "hp/status.h"
#include "transport/grants.h"
#include "transport/verbs/memory.h"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace hp {

/// The grants that we gave one peer, with where each lands. Its endpoint's mutex guards it.
class LandingTable {
 public:
  struct Incoming {
    OpenGrant grant;
    Landing landing;
    bool written = false;  ///< some of it arrived
  };

  /// @return kResourceExhausted: kMaxOpenGrants are open.
  StatusOr<RemoteGrant> Open(const PlaceTag& tag, std::span<std::byte> place, Landing landing, uint16_t parts);
  /// An immediate arrived on data queue pair `lane`; the first one sees every write, in their order.
  /// @return kInvalidArgument: it belongs to no open grant, or that one expects none on this queue pair (any more).
  Status OnImmediate(uint32_t immediate, size_t lane);
  /// Ends and returns the next grant of which everything is there, in the order of the writes.
  std::optional<Incoming> TakeArrived();
  /// Ends a grant that was given back. @return kInvalidArgument: not open, or written to.
  StatusOr<Incoming> Cancel(RemoteGrant grant);
  std::vector<Incoming> CloseAll();

 private:
  struct Slot {
    RemoteGrant grant;
    Landing landing;
    uint32_t expected = 0, arrived = 0;  // a bit for each data queue pair
  };
  Incoming Close(std::map<uint32_t, Slot>::iterator it);

  GrantTable grants_;
  std::map<uint32_t, Slot> open_;  // by index
  std::deque<uint32_t> written_;   // indices in the order of the writes
};

}  // namespace hp
