#pragma once

#include "hp/status.h"
#include "solvers/exchange/exchange.h"
#include "solvers/exchange/rendezvous.h"

#include <cstddef>
#include <memory>
#include <string>

namespace hp {

struct GlooOptions {
  int rank = 0, size = 1;  ///< index of this replica, and number of replicas, of the stage
  std::string address;     ///< name or address of this host that sockets are bound to: the node's host in the table
  std::string key_prefix;  ///< of its keys in the rendezvous ("conv"), so that several stages can share one
  /// Parameters smaller than this are copied together until they make this much, and summed at once.
  size_t bucket_bytes = size_t{1} << 20;
};

/// Connects an Exchange of gradients in host memory: a ring allreduce by Gloo over TCP. A thread "exchange" does the
/// sums in the order of Add; it alone waits for other replicas, and callbacks come from it. Each replica has a
/// connection to every other one, on ephemeral ports of `address` (the kernel's ip_local_port_range). No time limit: a
/// slow replica is waited for; whether one is lost is decided by the failure detector, and then Abort ends the wait.
/// Which parameters share a collective follows from the sequence of sizes alone, and the order of each sum from the
/// ranks, so all runs give the same bits.
///
/// Blocks until all `size` replicas have called it. Any thread.
/// @param rendezvous used only until it returns.
/// @return kUnavailable: connecting failed; kInvalidArgument: `address` is not one of this host; or the error of
/// `rendezvous`. No exception of Gloo leaves it.
StatusOr<std::unique_ptr<Exchange>> ConnectGlooExchange(const GlooOptions& options, Rendezvous* rendezvous,
                                                        Exchange::Callbacks callbacks);

}  // namespace hp
