#include "transport/verbs/landing_table.h"

#include "transport/verbs/frames.h"

#include <utility>

namespace hp {

StatusOr<RemoteGrant> LandingTable::Open(const PlaceTag& tag, std::span<std::byte> place, Landing landing,
                                         uint16_t parts) {
  HP_ASSIGN_OR_RETURN(const RemoteGrant grant, grants_.Open(tag, place));
  open_.insert_or_assign(grant.index, Slot{grant, std::move(landing), (uint32_t{1} << parts) - 1});
  return grant;
}

Status LandingTable::OnImmediate(uint32_t immediate, size_t lane) {
  const auto it = open_.find(ImmediateIndex(immediate));
  if (it == open_.end() || !ImmediateFits(immediate, it->second.grant.generation)) {
    return InvalidArgument("a write to grant %u.%u, not open", ImmediateIndex(immediate), immediate & 0xffff);
  }
  Slot& slot = it->second;
  const uint32_t bit = uint32_t{1} << lane;
  if ((slot.expected & bit) == 0 || (slot.arrived & bit) != 0) {
    return InvalidArgument("a write to grant %u on data queue pair %zu, not expected there", it->first, lane);
  }
  slot.arrived |= bit;
  if (lane == 0) written_.push_back(it->first);
  return OkStatus();
}

LandingTable::Incoming LandingTable::Close(std::map<uint32_t, Slot>::iterator it) {
  Slot slot = std::move(it->second);
  open_.erase(it);
  return {grants_.Close(slot.grant), std::move(slot.landing), slot.arrived != 0};
}

std::optional<LandingTable::Incoming> LandingTable::TakeArrived() {
  if (written_.empty()) return std::nullopt;
  const auto it = open_.find(written_.front());
  if (it->second.arrived != it->second.expected) return std::nullopt;
  written_.pop_front();
  return Close(it);
}

StatusOr<LandingTable::Incoming> LandingTable::Cancel(RemoteGrant grant) {
  const auto it = open_.find(grant.index);
  if (it == open_.end() || it->second.grant.generation != grant.generation || it->second.arrived != 0) {
    return InvalidArgument("a cancel of grant %u.%u, not open or written to", grant.index, grant.generation);
  }
  return Close(it);
}

std::vector<LandingTable::Incoming> LandingTable::CloseAll() {
  written_.clear();
  std::vector<Incoming> closed;
  while (!open_.empty()) closed.push_back(Close(open_.begin()));
  return closed;
}

}  // namespace hp
