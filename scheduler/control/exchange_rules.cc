#include "scheduler/control/exchange_rules.h"

#include "scheduler/control/exchange_tag.h"

#include <algorithm>
#include <utility>

namespace hp {

void ExchangeRules::Exchange::Begin(int64_t begun) {
  clock = begun;
  granted.assign(places.bytes.size(), false);
  left = static_cast<size_t>(std::count_if(places.bytes.begin(), places.bytes.end(), [](size_t n) { return n > 0; }));
}

ExchangeRules::ExchangeRules(std::vector<ExchangePlaces> exchanges, int64_t start_clock, int64_t end_clock)
    : end_clock_(end_clock) {
  for (ExchangePlaces& places : exchanges) {
    exchanges_.emplace_back().places = std::move(places);
    exchanges_.back().Begin(start_clock);
  }
}

Status ExchangeRules::Check(Rank from, const PlaceTag& tag, size_t bytes) {
  const auto exchange = std::find_if(exchanges_.begin(), exchanges_.end(), [&](const Exchange& each) {
    return static_cast<uint32_t>(each.places.stage) == ExchangeStage(tag) && each.places.granter == from;
  });
  if (exchange == exchanges_.end()) {
    return InvalidArgument("a grant for the exchange of stage %u, in which this node does not write to it",
                           ExchangeStage(tag));
  }
  const uint32_t number = ExchangeNumber(tag);
  if (ExchangeClock(tag) != exchange->clock || exchange->clock >= end_clock_) {
    return InvalidArgument("a grant for the exchange at iteration %u; expected %lld", ExchangeClock(tag),
                           static_cast<long long>(exchange->clock));
  }
  if (number >= exchange->granted.size() || exchange->places.bytes[number] == 0) {
    return InvalidArgument("a grant for place %u of the exchange, which it does not have", number);
  }
  if (bytes != exchange->places.bytes[number]) {
    return InvalidArgument("a grant of %zu bytes for place %u of the exchange; expected %zu", bytes, number,
                           exchange->places.bytes[number]);
  }
  if (exchange->granted[number]) return InvalidArgument("a second grant for place %u of the exchange", number);
  exchange->granted[number] = true;
  if (--exchange->left == 0) exchange->Begin(exchange->clock + 1);
  return OkStatus();
}

}  // namespace hp
