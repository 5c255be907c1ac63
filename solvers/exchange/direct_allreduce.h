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

/// Sums along the trees of DirectPlan. With g0 + g1 + ... the gradients of the replicas of a host, added in float32 in
/// this order, all replicas get
///
///     round(round(first host's sum) + round(second host's sum) + ...)     added in float32, in the order of hosts
///
/// or the same without rounding for what is exact, whatever the blocks are and whatever comes first. Needs no memory
/// beyond a few places for what is added: a sum is rounded where it lies, into the lower half of its chunk's own
/// memory, and the sum of all comes to the upper half.
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
  using Way = DirectPlan::Way;
  /// A chunk of one update.
  struct Key {
    uint64_t clock = 0;
    DirectPlan::Chunk chunk;
    auto operator<=>(const Key&) const = default;
  };
  /// A chunk whose parts come to this replica: the set of places in which they land, and from which the sum goes out.
  struct Adding {
    int set = 0;
    int missing = 0;  // parts that have not arrived
    int unsent = 0;   // writes of the sum that have not ended
  };
  /// What goes to a replica, by its distance behind this one: of one place each replica begins with the one behind it,
  /// lest all write to one at a time.
  using SendKey = std::pair<LinkPlace, int>;

  DirectAllreduce(DirectPlan plan, PeerLinks* links, DoneSink on_done);
  uint64_t TransfersOf(int collective) const;
  int DistanceOf(int peer) const { return (peer - plan_.rank() + plan_.size()) % plan_.size(); }
  int PeerAt(int distance) const { return (plan_.rank() + distance) % plan_.size(); }
  SendKey SendKeyOf(int peer, const LinkPlace& place) const { return {place, DistanceOf(peer)}; }
  LinkPlace PlaceOf(const Key& key, Way way, int peer) const {
    return {key.clock, plan_.NumberOf(key.chunk, way, peer)};
  }
  bool exact(const Key& key) const { return plan_.collectives()[key.chunk.collective].exact; }
  /// The values of the collective that a chunk has.
  std::span<float> ValuesOf(const Key& key);
  /// Of a chunk that its children's parts come to this replica for: where the `index`-th child's lands; the first one
  /// holds the sum while it goes out.
  std::span<std::byte> Slot(int set, size_t index, size_t bytes);
  /// Where the sum of a chunk comes to: without rounding all of its values.
  std::span<std::byte> SumPlace(const Key& key);
  /// Adds the parts of a chunk, which are all here: of this host on other hosts than its owner's, else of all.
  void AddParts(const Key& key, const Adding& adding);
  /// The sum of a chunk has come: passes it on, and makes float32 of it.
  void TakeSum(const Key& key);
  /// What goes to `peer` may be sent.
  void Ready(const Key& key, Way way, int peer);
  std::span<const std::byte> SourceOf(int peer, const LinkPlace& place);
  /// Posts what can be posted.
  Status Post();

  const DirectPlan plan_;
  PeerLinks* const links_;
  SumsUnderWay sums_;

  const size_t slot_bytes_, slots_of_set_;
  Buffer scratch_;
  std::shared_ptr<const void> registered_;
  std::vector<int> free_sets_;
  std::deque<Key> wanted_;        // chunks with children that have no set yet
  std::map<Key, Adding> adding_;  // the others

  // Sends: a chunk is ready, its place is granted, both, or being written.
  std::set<SendKey> ready_;
  std::map<SendKey, LinkGrant> granted_;
  std::map<SendKey, LinkGrant> sendable_;
  int writes_ = 0;
};

}  // namespace hp
