#pragma once

#include "base/clock.h"
#include "transport/connect/byte_stream.h"
#include "transport/connect/progress.h"
#include "transport/linked_transport.h"

#include <functional>
#include <memory>
#include <string>

namespace hp {

/// What a SocketLink uses of its transport, which owns it and outlives the link.
struct SocketLinkContext {
  ProgressThread* progress = nullptr;
  TransportHandler* handler = nullptr;
  const Clock* clock = nullptr;  ///< for LastHeardNs
};

/// A link that carries everything over the TCP connection on which its two nodes met.
class SocketLink : public PeerLink {
 public:
  /// Reports OnConnected, then starts to receive. Once, after the link was added to the transport's links. Progress
  /// thread.
  virtual void Open() = 0;
};

/// Makes a link over `stream`, which is past the handshake. A transport that uses sockets only for some
/// of its peers (verbs: clients, and nodes without a device) is given this function, so that it need not know the TCP
/// transport. @param name of the peer, for messages. Progress thread.
using MakeSocketLink = std::function<std::shared_ptr<SocketLink>(
    Rank peer, const std::string& name, std::unique_ptr<ByteStream> stream, const SocketLinkContext& context)>;

}  // namespace hp
