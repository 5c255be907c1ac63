#pragma once

namespace hp {

/// A node's position in the routing table, from 0; the same on all nodes of a job. Clients, peers that are not in the
/// table (model_test pulling the weights of a running job), get ranks from kFirstClientRank on, which the node that
/// accepts them assigns in the handshake.
using Rank = int;
constexpr Rank kFirstClientRank = 1 << 20;
/// Of clients, those that may give the job orders (hpctl) have ranks from here on.
constexpr Rank kFirstControllerRank = 1 << 29;

}  // namespace hp
