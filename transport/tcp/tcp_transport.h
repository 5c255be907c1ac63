#pragma once

#include "base/clock.h"
#include "hp/status.h"
#include "transport/tcp/tcp_listener.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hp {

/// A node as the routing table has it.
struct TcpPeer {
  Rank rank = 0;
  std::string name;  ///< for messages
  std::string host;  ///< name or address
  int port = 0;
};

struct TcpOptions {
  Rank rank = 0;
  /// All nodes of the job (our own entry is skipped): we connect to those of lower rank and wait for the others.
  /// Of a client: the nodes to connect to.
  std::vector<TcpPeer> peers = {};
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

/// @param listener where the peers of higher rank and clients find us; null: nobody does.
std::unique_ptr<Transport> MakeTcpTransport(TcpOptions options, std::unique_ptr<TcpListener> listener);

}  // namespace hp
