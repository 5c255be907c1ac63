#pragma once

#include "base/job_token.h"
#include "transport/connect/tcp_listener.h"
#include "transport/transport.h"

#include <memory>
#include <optional>
#include <string>

namespace hp {

/// hpserver's transport, over TCP: whoever proves the key "rendezvous" may connect. Not started.
/// @param keys of the job's token, by which all connections are encrypted (TLS); none: whoever connects may, in clear.
/// @param listener where the server listens.
std::unique_ptr<Transport> MakeTableServerTransport(const std::optional<JobKeys>& keys,
                                                    std::unique_ptr<TcpListener> listener);

/// That of a process that asks it: its one peer, rank 0, is the server. Gives up after 2 s. Not started.
/// @param host,port of the server. @param keys as the server's.
std::unique_ptr<Transport> MakeServerLinkTransport(const std::string& host, int port,
                                                   const std::optional<JobKeys>& keys);

}  // namespace hp
