#pragma once

#include "base/rank.h"

#include <cstdint>
#include <iterator>
#include <vector>

namespace hp {

/// A port: one tensor that crosses between this node and a peer in every micro-batch of a phase. Both sides compute the
/// same channel and size, so nothing about a tensor is sent but its bytes.
struct PortPlan {
  uint32_t channel = 0;   ///< PlaceTag::channel: tells apart the tensors that cross between two nodes
  int edge = 0;           ///< index into Placement::edges()
  int part = 0;           ///< which shard of its stage the peer is; 0 where it is a replica
  bool landing = false;   ///< it arrives here; else it leaves from here
  bool gradient = false;  ///< a gradient on its way back; else a value
  int segment = 0;  ///< landing: this segment's task needs it; leaving: it is final when this segment's task is done
  int64_t row_bytes = 0;         ///< bytes of one sample: dense, row-major, of Edge::element
  std::vector<Rank> peers = {};  ///< one, or where they are replicas all of them, which micro-batches go to in turn

  /// The node that it comes from or goes to. @param turn of the micro-batch, among all of its clock and phase.
  Rank peer(int64_t turn) const { return peers[turn % std::ssize(peers)]; }
};

}  // namespace hp
