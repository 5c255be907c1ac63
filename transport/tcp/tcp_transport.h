#pragma once

#include "transport/connect/options.h"
#include "transport/connect/socket_link.h"
#include "transport/connect/tcp_listener.h"
#include "transport/transport.h"

#include <memory>
#include <string>

namespace hp {

/// Makes a transport with one TCP connection to each peer, on any network and within a host. Tensors are received
/// directly into their places. Register does nothing, and memory of GPUs is not reached. Nothing is sent before Start.
/// transport/README.md, "Bytes on a TCP connection", has the protocol.
/// @param listener where peers of higher rank and clients connect; null: nobody can (a client).
std::unique_ptr<Transport> MakeTcpTransport(ConnectOptions options, std::unique_ptr<TcpListener> listener);

/// Makes the link to one peer over a connected socket, as this transport does: the MakeSocketLink
/// (connect/socket_link.h) of transports that use TCP for some peers only.
std::shared_ptr<SocketLink> MakeTcpLink(Rank peer, const std::string& name, std::unique_ptr<ByteStream> stream,
                                        const SocketLinkContext& context);

}  // namespace hp
