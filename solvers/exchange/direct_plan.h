#pragma once

#include "solvers/exchange/block_plan.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace hp {

/// What replicas send each other in each update, where gradients cross the network in bfloat16, or replicas share
/// hosts. Each block of a collective has an owner, which makes the sum of all replicas' parts of it. On each other host
/// one replica collects the parts of that host, and sends the owner their sum; the owner sends the sum of all back the
/// same way. So each block is a tree of two levels, rooted at its owner, and of each host the sum of its replicas
/// crosses the network once and the sum of all comes back once, however many replicas it has.
///
/// Blocks are dealt out to the hosts in turn, and there to the replicas in turn, so that hosts send alike. Where each
/// replica has a host of its own, replica b owns block b, and all send to the owner themselves.
///
/// Values that cross the network are rounded to bfloat16 (ValueBytes, kUp): once by the host that made them and once by
/// the owner, where a ring would round at each of N - 1 hops. Collectives that are exact move likewise, in float32.
class DirectPlan : public BlockPlan {
 public:
  /// Which way a transfer goes: a part to the parent in the block's tree, or the sum to a child.
  enum Way { kUp = 0, kDown = 1 };
  /// A piece of a block, which moves at once.
  struct Chunk {
    int collective = 0;
    int block = 0;
    uint32_t chunk = 0;
    auto operator<=>(const Chunk&) const = default;
  };

  /// Bytes that this replica sends and receives in an update.
  struct Traffic {
    int64_t sent = 0, received = 0;
  };

  /// @param host_of by replica: its host, numbered in the order of each one's first replica (CHECK). Empty: each has
  /// its own.
  explicit DirectPlan(Options options, const std::vector<int>& host_of = {});

  int host_of(int replica) const { return trees_.host_of[replica]; }
  int hosts() const { return static_cast<int>(trees_.members.size()); }
  /// Whether a transfer between two replicas crosses the network.
  bool Crosses(int a, int b) const { return host_of(a) != host_of(b); }

  int owner(int block) const { return trees_.Owner(block); }
  /// Whom this replica sends its part of a block to, and gets the sum from; -1: it is the owner.
  int parent(int block) const { return trees_.Parent(rank(), block); }
  /// Whose parts of a block come to this replica, ascending.
  const std::vector<int>& children(int block) const { return children_[block]; }

  /// Whether this replica and another one are parent and child in a block's tree.
  bool Meets(int peer) const { return links_.contains(peer); }

  /// Bytes of a value of a collective on its way between two replicas.
  size_t ValueBytes(int collective, Way way, int a, int b) const {
    return collectives()[collective].exact || (way == kUp && !Crosses(a, b)) ? 4 : 2;
  }

  /// The number of the place of a transfer between this replica and `peer`, its parent or child in the block's tree.
  uint32_t NumberOf(const Chunk& chunk, Way way, int peer) const;
  /// The transfer that a number stands for on the link to `peer`. @param granted whether we granted the place, not
  /// `peer`. There must be one (CHECK).
  std::pair<Chunk, Way> TransferOf(uint32_t number, int peer, bool granted) const;

  /// By number: bytes of the place that `peer` grants this replica; 0: it grants none of this number. All 0 where the
  /// two never meet in a tree.
  std::vector<size_t> BytesFrom(int peer) const;
  Traffic TrafficOfAll() const;

 private:
  /// Who is where in the trees of all blocks.
  struct Trees {
    Trees(int size, const std::vector<int>& hosts);
    int Owner(int block) const;
    /// Who adds a host's parts of a block: on the owner's host the owner.
    int Collector(int host, int block) const;
    int Parent(int replica, int block) const;
    std::vector<int> Children(int replica, int block) const;
    /// At least the most blocks in whose trees two replicas are parent and child.
    int MostBlocks() const;

    std::vector<int> host_of;               // by replica
    std::vector<std::vector<int>> members;  // by host
  };

  DirectPlan(Options options, Trees trees);

  /// Blocks in whose trees a peer is our parent, and our child; ascending.
  struct Link {
    std::vector<int> above, below;
  };

  const Trees trees_;
  std::vector<std::vector<int>> children_;  // by block: this replica's
  std::map<int, Link> links_;               // by peer
};

}  // namespace hp
