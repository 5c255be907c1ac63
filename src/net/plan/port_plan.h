#pragma once

#include "base/rank.h"

#include <cstdint>
#include <vector>

namespace hp {

/// One tensor that crosses between this node and others in every micro-batch of a phase. Both sides compute it.
struct PortPlan {
  uint32_t channel = 0;          ///< PlaceTag::channel: which tensor between which two nodes
  int edge = 0;                  ///< of the placement
  int part = 0;                  ///< the writer's or reader's part of its stage; 0 where all replicas are alike
  bool landing = false;          ///< arrives here; else leaves from here
  bool gradient = false;         ///< a gradient on its way back
  int segment = 0;               ///< landing: needed before it; leaving: final after it
  int64_t row_bytes = 0;         ///< of one sample: dense, row-major float32
  std::vector<Rank> peers = {};  ///< one, or one for each replica

  /// Whom it comes from or goes to, for a micro-batch of `replica`.
  Rank peer(int replica) const { return peers.size() == 1 ? peers[0] : peers[replica]; }
};

}  // namespace hp
