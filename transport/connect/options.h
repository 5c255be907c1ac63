#pragma once

#include "base/clock.h"
#include "base/job_token.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hp {

/// Where a node listens, from the routing table.
struct PeerAddress {
  Rank rank = 0;
  std::string name;  ///< for messages
  std::string host;  ///< name or address
  int port = 0;
};

/// How a transport finds its peers over TCP. Constant once the transport is made.
struct ConnectOptions {
  Rank rank = 0;  ///< ours; a client has none
  /// A node's: all nodes of the job (our own entry is skipped); it connects to those of lower rank and waits for the
  /// others to connect to it. A client's: the nodes to connect to.
  std::vector<PeerAddress> peers = {};
  /// Whether we are not a node of the job: connects to all of `peers` and accepts nobody.
  bool client = false;
  /// Of a client: whether it gives the job orders. With `keys`, needs the job's token.
  bool control = false;
  /// Numeric local address of the connections that we make; empty: the system's choice.
  std::string bind_host = {};
  int64_t connect_deadline_ms = 300'000;  ///< for all peers to appear; the others get OnConnectFailed
  int handshake_deadline_ms = 5'000;      ///< for each handshake, and each attempt to connect
  size_t max_handshakes = 64;             ///< accepted connections in their handshake; the oldest is dropped
  size_t max_handshakes_per_host = 32;    ///< likewise, from one address
  /// What both sides have to prove; none: whoever comes from the host of a node may speak in its name.
  std::optional<JobKeys> keys = {};
  bool tls = false;  ///< all connections are encrypted (tls.h); needs `keys`
  /// How long the progress thread polls after the last event before it sleeps. A sleeping thread takes 40 µs to wake
  /// up. 0: it sleeps at once.
  int64_t spin_ns = 50'000;
  const Clock* clock = Clock::Real();  ///< deadlines and LastHeardNs
};

}  // namespace hp
