#include "scheduler/control/exchange_rules.h"

#include "scheduler/control/exchange_tag.h"

#include <algorithm>
#include <utility>

namespace hp {

ExchangeRules::ExchangeRules(std::vector<ExchangePlaces> exchanges, int64_t start_clock, int64_t end_clock,
                             int staleness)
    : start_clock_(start_clock), end_clock_(end_clock), staleness_(staleness) {
  for (ExchangePlaces& places : exchanges) {
    const auto all = std::count_if(places.bytes.begin(), places.bytes.end(), [](size_t n) { return n > 0; });
    exchanges_.push_back({std::move(places), static_cast<size_t>(all), start_clock});
  }
}

Status ExchangeRules::Check(Rank from, const PlaceTag& tag, size_t bytes, int64_t clocks_reported) {
  const auto exchange = std::find_if(exchanges_.begin(), exchanges_.end(), [&](const Exchange& each) {
    return static_cast<uint32_t>(each.places.stage) == ExchangeStage(tag) && each.places.granter == from;
  });
  if (exchange == exchanges_.end()) {
    return InvalidArgument("a grant for the exchange of stage %u, in which this node does not write to it",
                           ExchangeStage(tag));
  }
  const uint32_t number = ExchangeNumber(tag);
  const int64_t clock = ExchangeClock(tag);
  if (const int64_t latest = std::max(start_clock_, clocks_reported) + 2 * (staleness_ + 1); clock > latest) {
    return InvalidArgument(
        "a grant for the exchange at iteration %u; expected %lld at most, since this node has not "
        "reported more",
        ExchangeClock(tag), static_cast<long long>(latest));
  }
  if (clock < exchange->clock || clock > exchange->clock + staleness_ || clock >= end_clock_) {
    return InvalidArgument("a grant for the exchange at iteration %u; expected %lld", ExchangeClock(tag),
                           static_cast<long long>(exchange->clock));
  }
  if (number >= exchange->places.bytes.size() || exchange->places.bytes[number] == 0) {
    return InvalidArgument("a grant for place %u of the exchange, which it does not have", number);
  }
  if (bytes != exchange->places.bytes[number]) {
    return InvalidArgument("a grant of %zu bytes for place %u of the exchange; expected %zu", bytes, number,
                           exchange->places.bytes[number]);
  }
  auto& granted = exchange->granted;
  if (!granted[clock].insert(number).second) {
    return InvalidArgument("a second grant for place %u of the exchange", number);
  }
  for (; !granted.empty() && granted.begin()->first == exchange->clock; ++exchange->clock) {
    if (granted.begin()->second.size() < exchange->all) break;
    granted.erase(granted.begin());
  }
  return OkStatus();
}

}  // namespace hp
