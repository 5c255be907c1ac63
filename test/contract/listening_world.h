#pragma once

#include "test/contract/fixtures.h"
#include "transport/tcp/tcp_transport.h"

#include <glog/logging.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hp {

/// Nodes that meet over TCP on this host, each with a listener from the start; clients talk TCP.
class ListeningWorld : public TransportWorld {
 public:
  /// @param addresses of the nodes, in turn. @param keys their connections are encrypted by these; none: in clear.
  ListeningWorld(const WorldOptions& options, const std::vector<std::string>& addresses,
                 int64_t spin_ns = ConnectOptions().spin_ns, const std::optional<JobKeys>& keys = {})
      : options_(options), spin_ns_(spin_ns), keys_(keys) {
    for (Rank rank = 0; rank < options.size; ++rank) {
      const std::string& address = addresses[rank % addresses.size()];
      auto listener = TcpListener::Bind(address, 0);
      CHECK(listener.ok()) << listener.status();
      peers_.push_back({rank, "node" + std::to_string(rank), address, (*listener)->port()});
      listeners_.push_back(*std::move(listener));
    }
  }
  std::unique_ptr<Transport> CreateClient(Rank server) override {
    ConnectOptions options = Common();
    options.client = true;
    options.peers = {peers_[server]};
    return MakeTcpTransport(options, nullptr);
  }

 protected:
  ConnectOptions NodeOptions(Rank rank) const {
    ConnectOptions options = Common();
    options.rank = rank;
    options.peers = peers_;
    options.bind_host = peers_[rank].host;
    return options;
  }
  std::unique_ptr<TcpListener> TakeListener(Rank rank) { return std::move(listeners_[rank]); }

 private:
  ConnectOptions Common() const {
    ConnectOptions options;
    options.connect_deadline_ms = options_.connect_deadline_ms;
    options.clock = options_.clock;
    options.spin_ns = spin_ns_;
    options.keys = keys_;
    options.tls = keys_.has_value();
    return options;
  }

  const WorldOptions options_;
  const int64_t spin_ns_;
  const std::optional<JobKeys> keys_;
  std::vector<PeerAddress> peers_;
  std::vector<std::unique_ptr<TcpListener>> listeners_;
};

}  // namespace hp
