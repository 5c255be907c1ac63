#pragma once

#include "base/clock.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hp {

/// Where a node listens, as the routing table says.
struct PeerAddress {
  Rank rank = 0;
  std::string name;  ///< for messages
  std::string host;  ///< name or address
  int port = 0;
};

/// How a transport finds its peers over TCP and looks after its connections. Constant once the transport is made.
struct ConnectOptions {
  Rank rank = 0;  ///< ours; a client has none
  /// All nodes of the job (our own entry is skipped): we connect to those of lower rank and wait for the others.
  /// Of a client: the nodes to connect to.
  std::vector<PeerAddress> peers = {};
  /// Whether we are no node of the job: we connect to all of `peers` and wait for nobody.
  bool client = false;
  /// Address that our own connections come from; empty: the system's choice.
  std::string bind_host = {};
  int connect_deadline_ms = 300'000;  ///< for each peer to appear; OnConnectFailed tells who did not
  int handshake_deadline_ms = 5'000;  ///< for a stranger to say hello
  size_t max_handshakes = 64;         ///< accepted connections that have not said it yet; the oldest is dropped
  /// How long the progress thread looks for more after the last thing that happened before it sleeps. A sleeping thread
  /// takes 40 µs to wake up. 0: sleep at once.
  int64_t spin_ns = 50'000;
  const Clock* clock = Clock::Real();  ///< deadlines and LastHeardNs
};

}  // namespace hp
