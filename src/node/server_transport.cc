#include "node/server_transport.h"

#include "transport/tcp/tcp_transport.h"

#include "rendezvous/server_messages.h"

namespace hp {

std::unique_ptr<Transport> MakeTableServerTransport(const std::optional<JobKeys>& keys,
                                                    std::unique_ptr<TcpListener> listener) {
  ConnectOptions options;
  options.keys = RendezvousProof(keys);
  options.tls = keys.has_value();
  options.spin_ns = 0;  // a few messages a second
  return MakeTcpTransport(options, std::move(listener));
}

std::unique_ptr<Transport> MakeServerLinkTransport(const std::string& host, int port,
                                                   const std::optional<JobKeys>& keys) {
  ConnectOptions options;
  options.client = true;
  options.peers.push_back({0, "hpserver", host, port});
  options.connect_deadline_ms = 2000;
  options.keys = RendezvousProof(keys);
  options.tls = keys.has_value();
  options.spin_ns = 0;
  return MakeTcpTransport(options, nullptr);
}

}  // namespace hp
