#pragma once

namespace hp {

/// A node's position in the routing table; the same on all nodes of a job. Peers that are not in the table (someone who
/// pulls the weights of a running job) get ranks from kFirstClientRank on, given out by the handshake.
using Rank = int;
constexpr Rank kFirstClientRank = 1 << 20;

}  // namespace hp
