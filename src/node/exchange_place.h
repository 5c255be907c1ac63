#pragma once

#include "scheduler/control/exchange_tag.h"
#include "solvers/exchange/link_place.h"
#include "transport/transport.h"

namespace hp {

/// The place of an exchange that a peer's tag names, which it may have made up.
inline LinkPlace PlaceOf(const PlaceTag& tag) { return {ExchangeClock(tag), ExchangeNumber(tag)}; }

}  // namespace hp
