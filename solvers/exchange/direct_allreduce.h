#pragma once

#include "hp/status.h"
#include "solvers/exchange/allreduce.h"
#include "solvers/exchange/direct_plan.h"
#include "solvers/exchange/peer_links.h"
#include "solvers/exchange/sums_under_way.h"
#include "tensor/buffer.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace hp {

/// Sums in bfloat16 on the network, as DirectPlan says: all replicas get
///
///     round(round(g0) + round(g1) + ... + round(gN-1))     added in float32, in this order
///
/// whatever the blocks are and whatever comes first. Needs no memory beyond a few places for what is added: a part is
/// rounded where it lies, into the lower half of its chunk's own memory, and the sum comes to the upper half.
class DirectAllreduce : public Allreduce {
 public:
  /// Allocates the places for what is added on arrival, and registers them. @param links must outlive it.
  /// @return the error of PeerLinks::Register.
  static StatusOr<std::unique_ptr<Allreduce>> Create(DirectPlan plan, PeerLinks* links, DoneSink on_done);
  /// Of the memory that it allocates.
  static size_t BytesFor(const DirectPlan& plan);

  const BlockPlan& plan() const override { return plan_; }
  Status Start(uint64_t clock, int collective, std::span<float> values) override;
  int under_way() const override { return sums_.count(); }
  Status OnGranted(int peer, const LinkPlace& place, const LinkGrant& grant) override;
  Status OnArrived(int peer, const LinkPlace& place) override;
  Status OnWritten(int peer, const LinkPlace& place) override;

 private:
  /// A chunk that this replica owns: the set of places in which the others' parts land, and from which the sum goes
  /// out.
  struct Owned {
    int set = 0;
    int missing = 0;  // parts that have not arrived
    int unsent = 0;   // writes of the sum that have not ended
  };
  /// What goes to a replica, by its distance behind this one: of one place each replica begins with the one behind it,
  /// lest all write to one at a time.
  using Key = std::pair<LinkPlace, int>;

  DirectAllreduce(DirectPlan plan, PeerLinks* links, DoneSink on_done);
  uint64_t TransfersOf(int collective) const;
  int DistanceOf(int peer) const { return (peer - plan_.rank() + plan_.size()) % plan_.size(); }
  int PeerAt(int distance) const { return (plan_.rank() + distance) % plan_.size(); }
  Key KeyOf(int peer, const LinkPlace& place) const { return {place, DistanceOf(peer)}; }
  bool exact(const LinkPlace& place) const { return plan_.collectives()[plan_.At(place.number).collective].exact; }
  /// The place of the same chunk in another step.
  LinkPlace PlaceOf(const LinkPlace& place, DirectPlan::Step step) const;
  /// The values of the collective that a transfer moves.
  std::span<float> ValuesOf(const LinkPlace& place, int granter, int writer);
  /// Where a chunk's parts of the replica at `distance` land; the first one holds the sum while it goes out.
  std::span<std::byte> Slot(int set, int distance, size_t bytes);
  /// Adds the parts of an owned chunk, which are all here. @param place of its parts.
  void AddParts(const LinkPlace& place, const Owned& owned);
  /// What goes to `peer` may be sent.
  void Ready(int peer, const LinkPlace& place);
  std::span<const std::byte> SourceOf(int peer, const LinkPlace& place);
  /// Posts what can be posted.
  Status Post();

  const DirectPlan plan_;
  PeerLinks* const links_;
  SumsUnderWay sums_;

  const size_t slot_bytes_;
  Buffer scratch_;
  std::shared_ptr<const void> registered_;
  std::vector<int> free_sets_;
  std::deque<LinkPlace> wanted_;      // owned chunks without a set yet, by the place of their parts
  std::map<LinkPlace, Owned> owned_;  // the others, likewise

  // Sends: a chunk is ready, its place is granted, both, or being written.
  std::set<Key> ready_;
  std::map<Key, LinkGrant> granted_;
  std::map<Key, LinkGrant> sendable_;
  int writes_ = 0;
};

}  // namespace hp
