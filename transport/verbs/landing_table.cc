// When a place that is written over several queue pairs is full.
//
// Nothing orders different queue pairs, so each part of a write ends with an immediate of its own, which arrives behind
// the part's bytes. A slot has a bit for each part, and is full when all came. Writes are reported in the order of the
// calls all the same: every write uses data queue pair 0, whose immediates come in that order, so the index joins
// `written_` with that one, and nothing behind a place that is not full yet is reported before it. An immediate carries
// 16 bits of the generation, so that one for a grant that has ended is not taken for its successor's.
#include "transport/verbs/landing_table.h"

#include "transport/verbs/frames.h"

#include <utility>

namespace hp {

void LandingTable::Open(RemoteGrant grant, Landing landing, uint16_t parts) {
  open_.insert_or_assign(grant.index, Slot{grant, std::move(landing), (uint32_t{1} << parts) - 1});
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

std::optional<LandingTable::Arrived> LandingTable::TakeArrived() {
  if (written_.empty()) return std::nullopt;
  const auto it = open_.find(written_.front());
  if (it->second.arrived != it->second.expected) return std::nullopt;
  written_.pop_front();
  Arrived arrived{it->second.grant, std::move(it->second.landing)};
  open_.erase(it);
  return arrived;
}

Status LandingTable::Cancel(RemoteGrant grant) {
  const auto it = open_.find(grant.index);
  if (it == open_.end() || it->second.grant.generation != grant.generation || it->second.arrived != 0) {
    return InvalidArgument("a cancel of grant %u.%u, not open or written to", grant.index, grant.generation);
  }
  open_.erase(it);
  return OkStatus();
}

std::vector<Landing> LandingTable::TakeAll() {
  written_.clear();
  std::vector<Landing> landings;
  for (auto& [index, slot] : std::exchange(open_, {})) landings.push_back(std::move(slot.landing));
  return landings;
}

}  // namespace hp
