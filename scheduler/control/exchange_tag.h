#pragma once

#include "transport/transport.h"

#include <cstdint>

namespace hp {

constexpr uint32_t kExchangeBit = 0x40000000u;

/// The tag of one place of a data-parallel stage's exchange of gradients. The places of an update are numbered by the
/// exchange.
/// @param clock the update, below 2^32. @param stage index of the stage in the table.
inline PlaceTag ExchangeTag(int stage, uint64_t clock, uint32_t number) {
  return {clock << 32 | number, kExchangeBit | static_cast<uint32_t>(stage)};
}

/// Whether a grant or write is of an exchange: slices have the top bit, tensors of pipelines have neither.
inline bool IsExchangeTag(const PlaceTag& tag) { return tag.channel >> 30 == 1; }
/// What ExchangeTag was given. Only of an exchange's tag; the peer may have made it up.
inline uint32_t ExchangeStage(const PlaceTag& tag) { return tag.channel & ~kExchangeBit; }
inline uint32_t ExchangeClock(const PlaceTag& tag) { return static_cast<uint32_t>(tag.msg_id >> 32); }
inline uint32_t ExchangeNumber(const PlaceTag& tag) { return static_cast<uint32_t>(tag.msg_id); }

}  // namespace hp
