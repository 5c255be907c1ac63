#pragma once

#include "transport/connect/options.h"
#include "transport/connect/tcp_listener.h"
#include "transport/transport.h"

#include <memory>

namespace hp {

/// @param listener where the peers of higher rank and clients find us; null: nobody does.
std::unique_ptr<Transport> MakeTcpTransport(ConnectOptions options, std::unique_ptr<TcpListener> listener);

}  // namespace hp
