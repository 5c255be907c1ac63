#pragma once

#include "base/clock.h"
#include "transport/connect/progress.h"
#include "transport/connect/socket.h"
#include "transport/linked_transport.h"

#include <functional>
#include <memory>
#include <string>

namespace hp {

/// What a SocketLink takes from its transport, which owns all of it and outlives the link.
struct SocketLinkContext {
  ProgressThread* progress = nullptr;
  TransportHandler* handler = nullptr;
  const Clock* clock = nullptr;  ///< for LastHeardNs
};

/// A link that carries everything over the connection on which its two nodes met.
class SocketLink : public PeerLink {
 public:
  /// Reports OnConnected, then begins to receive. Once, after the link was added to its transport's; progress thread.
  virtual void Open() = 0;
};

/// Makes the link over `socket`, which is connected and past the handshake. By this a transport that uses sockets only
/// for some of its peers (verbs: clients, and nodes without a device) is given the transport that does it for them.
/// @param name of the peer, for messages.
using MakeSocketLink = std::function<std::shared_ptr<SocketLink>(Rank peer, const std::string& name, TcpSocket socket,
                                                                 const SocketLinkContext& context)>;

}  // namespace hp
