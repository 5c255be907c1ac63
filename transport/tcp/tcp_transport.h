#pragma once

#include "transport/connect/options.h"
#include "transport/connect/socket_link.h"
#include "transport/connect/tcp_listener.h"
#include "transport/transport.h"

#include <memory>
#include <string>

namespace hp {

/// @param listener where the peers of higher rank and clients find us; null: nobody does.
std::unique_ptr<Transport> MakeTcpTransport(ConnectOptions options, std::unique_ptr<TcpListener> listener);

/// The link to one peer as this transport makes it, for transports that use TCP for some peers only: a MakeSocketLink.
std::shared_ptr<SocketLink> MakeTcpLink(Rank peer, const std::string& name, TcpSocket socket,
                                        const SocketLinkContext& context);

}  // namespace hp
