#pragma once

#include "transport/connect/options.h"
#include "transport/connect/socket_link.h"
#include "transport/connect/tcp_listener.h"
#include "transport/transport.h"

#include <memory>
#include <string>

namespace hp {

/// A transport with one TCP connection to each peer, on any network and within a host. Tensors are received straight
/// into their places; no memory needs to be registered, and no memory of GPUs is reached. Source of the protocol:
/// transport/README.md, "Bytes on a TCP connection".
/// @param listener where the peers of higher rank and clients find us; null: nobody does.
std::unique_ptr<Transport> MakeTcpTransport(ConnectOptions options, std::unique_ptr<TcpListener> listener);

/// The link to one peer as this transport makes it, for transports that use TCP for some peers only: a MakeSocketLink.
std::shared_ptr<SocketLink> MakeTcpLink(Rank peer, const std::string& name, TcpSocket socket,
                                        const SocketLinkContext& context);

}  // namespace hp
