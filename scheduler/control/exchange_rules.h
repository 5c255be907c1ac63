#pragma once

#include "base/rank.h"
#include "hp/status.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace hp {

/// What one neighbour of this node in the exchange of a data-parallel stage may grant it, in each update.
struct ExchangePlaces {
  int stage = 0;              ///< index in the table
  Rank granter = 0;           ///< the neighbour that we write to
  std::vector<size_t> bytes;  ///< by number of the place: its size; 0: there is no such place
};

/// Which grants of exchanges are in order: each place of an update once, of just its size, and all of an update before
/// the first of the next one, or with staleness s of the one s + 1 later; and no update further than 2 (s + 1) beyond
/// those that this node has reported. An honest neighbour can't do otherwise: an update needs all of its places;
/// nobody begins iteration t before the verdict on t - s - 2, which needs the report of this node; and a parameter
/// server grants those of update t + s + 1 once it has done t. So what this node keeps for later is bounded by the
/// places of 2 s + 3 updates. Progress thread (PeerRules).
class ExchangeRules {
 public:
  ExchangeRules() = default;  ///< allows none
  /// @param start_clock the first update of this run. @param end_clock the one behind the last.
  ExchangeRules(std::vector<ExchangePlaces> exchanges, int64_t start_clock, int64_t end_clock, int staleness);

  /// @param tag an exchange's (ExchangeTag). @param clocks_reported BoundaryRequests::clocks_reported.
  /// @return kInvalidArgument: what is wrong with the grant.
  Status Check(Rank from, const PlaceTag& tag, size_t bytes, int64_t clocks_reported);

 private:
  struct Exchange {
    ExchangePlaces places;
    size_t all = 0;                                      // places of an update
    int64_t clock = 0;                                   // the first update that lacks some
    std::map<int64_t, std::set<uint32_t>> granted = {};  // by update from `clock` on: numbers
  };

  std::vector<Exchange> exchanges_;
  int64_t start_clock_ = 0, end_clock_ = 0;
  int staleness_ = 0;
};

}  // namespace hp
