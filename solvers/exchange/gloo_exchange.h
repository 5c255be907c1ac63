#pragma once

#include "hp/status.h"
#include "solvers/exchange/exchange.h"
#include "solvers/exchange/rendezvous.h"

#include <cstddef>
#include <memory>
#include <string>

namespace hp {

struct GlooOptions {
  int rank = 0, size = 1;  ///< among the replicas of the stage
  std::string address;     ///< the node's host in the routing table: what the sockets are bound to
  std::string key_prefix;  ///< of its keys in the rendezvous ("gloo/conv"): two stages may share one rendezvous
  /// Parameters smaller than this are copied together until they make this much, and summed at once.
  size_t bucket_bytes = size_t{1} << 20;
};

/// An Exchange by ring allreduce with Gloo over TCP, on a thread named "exchange" that works in the order of Add and
/// alone waits for other replicas; its callbacks come from there.
/// Each replica has a connection to each other one on ephemeral ports of `address` (the kernel's ip_local_port_range).
/// Nothing here has a time limit: a slow replica is waited for, and who is lost is found out by the node connections.
/// The grouping into collectives follows from the sequence of sizes alone, and the order of each sum from the ranks.
///
/// Blocks until all `size` replicas have called it. Any thread.
/// @return kUnavailable: connecting failed; kInvalidArgument: `address` is not one of this host; or what `rendezvous`
/// said. Everything that Gloo throws ends up as a Status.
StatusOr<std::unique_ptr<Exchange>> ConnectGlooExchange(const GlooOptions& options, Rendezvous* rendezvous,
                                                        Exchange::Callbacks callbacks);

}  // namespace hp
