// How grants are kept.
//
// A grant travels as (index, generation). The index is a slot of a vector, so that what a peer says is looked up
// without a search; a slot is used again with another generation, so that what is said late of an old grant is
// recognised and not taken for the new one. Open slots are linked in the order in which they were opened, because
// writes mostly come in that order: the successor of the grant that ended last is the likely next one, and a receiver
// that guesses right saves a system call. A peer's grants are in a hash table by index instead of a vector: their
// indices are the peer's choice, and a vector would let it choose our memory use.
#include "transport/grants.h"

#include <glog/logging.h>

#include <cinttypes>
#include <utility>

namespace hp {

StatusOr<RemoteGrant> GrantTable::Open(const PlaceTag& tag, std::span<std::byte> place) {
  if (open_ >= kMaxOpenGrants) return ResourceExhausted("%zu grants are open already", open_);
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.grant = {tag, place, 0};
  slot.open = true;
  ++slot.generation;
  ++open_;
  slot.older = youngest_;
  slot.younger = kNone;
  if (youngest_ != kNone) slots_[youngest_].younger = index;
  youngest_ = index;
  if (likely_ == kNone) likely_ = index;
  return RemoteGrant{index, slot.generation};
}

OpenGrant* GrantTable::Find(RemoteGrant grant) {
  if (grant.index >= slots_.size()) return nullptr;
  Slot& slot = slots_[grant.index];
  return slot.open && slot.generation == grant.generation ? &slot.grant : nullptr;
}

OpenGrant GrantTable::Close(RemoteGrant grant) {
  CHECK(Find(grant) != nullptr) << "grant " << grant.index << " is not open";
  Slot& slot = slots_[grant.index];
  slot.open = false;
  free_.push_back(grant.index);
  --open_;
  if (slot.older != kNone) slots_[slot.older].younger = slot.younger;
  (slot.younger != kNone ? slots_[slot.younger].older : youngest_) = slot.older;
  likely_ = slot.younger;
  return std::exchange(slot.grant, {});
}

std::optional<RemoteGrant> GrantTable::Likely() const {
  if (likely_ == kNone) return std::nullopt;
  return RemoteGrant{likely_, slots_[likely_].generation};
}

std::vector<OpenGrant> GrantTable::CloseAll() {
  std::vector<OpenGrant> closed;
  for (uint32_t index = 0; index < slots_.size(); ++index) {
    if (slots_[index].open) closed.push_back(Close({index, slots_[index].generation}));
  }
  return closed;
}

Status RemoteGrantTable::Add(const PlaceTag& tag, RemoteGrant grant, uint64_t bytes, const RemotePlace& place) {
  if (entries_.size() >= kMaxOpenGrants) return InvalidArgument("more than %zu open grants", kMaxOpenGrants);
  const bool added = entries_.try_emplace(grant.index, Entry{tag, grant.generation, bytes, place}).second;
  if (!added) return InvalidArgument("grant %u is open and was given again", grant.index);
  return OkStatus();
}

StatusOr<RemoteGrantTable::Entries::iterator> RemoteGrantTable::Find(RemoteGrant grant) {
  const auto it = entries_.find(grant.index);
  if (it != entries_.end() && it->second.generation == grant.generation) return it;
  return InvalidArgument("grant %u.%u is not open", grant.index, grant.generation);
}

StatusOr<RemotePlace> RemoteGrantTable::Use(RemoteGrant grant, const PlaceTag& tag, size_t bytes) {
  HP_ASSIGN_OR_RETURN(const auto it, Find(grant));
  const Entry& entry = it->second;
  if (tag != entry.tag) {
    return InvalidArgument("grant %u is for msg %" PRIu64 " channel %u, not for msg %" PRIu64 " channel %u",
                           grant.index, entry.tag.msg_id, entry.tag.channel, tag.msg_id, tag.channel);
  }
  if (bytes != entry.bytes) {
    return InvalidArgument("a place of %" PRIu64 " bytes for msg %" PRIu64 " channel %u, a write of %zu bytes",
                           entry.bytes, entry.tag.msg_id, entry.tag.channel, bytes);
  }
  const RemotePlace place = entry.place;
  entries_.erase(it);
  return place;
}

Status RemoteGrantTable::Remove(RemoteGrant grant) {
  HP_ASSIGN_OR_RETURN(const auto it, Find(grant));
  entries_.erase(it);
  return OkStatus();
}

}  // namespace hp
