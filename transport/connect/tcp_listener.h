#pragma once

#include "hp/status.h"

#include <memory>
#include <string>

namespace hp {

/// A listening TCP socket, closed on destruction. It is made before the transport, so that a node can take the first
/// entry of the table whose port is free. One thread at a time.
class TcpListener {
 public:
  /// Listens on `host` (name or address; empty: all IPv4 addresses) and `port` (0: any free one). SO_REUSEADDR is set.
  /// @return kFailedPrecondition: it can't; the message names the address, the cause, and the process that holds the
  /// port; kInvalidArgument: `port` is not in 0..65535.
  static StatusOr<std::unique_ptr<TcpListener>> Bind(const std::string& host, int port);
  ~TcpListener();
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;

  /// The port that it listens on; never 0.
  int port() const { return port_; }
  /// Gives up the descriptor, which the caller closes; call it once.
  int Release();
  /// Whether it listens on an IPv6 address; false: IPv4.
  bool ipv6() const { return ipv6_; }

 private:
  TcpListener(int fd, int port, bool ipv6) : fd_(fd), port_(port), ipv6_(ipv6) {}

  int fd_;
  int port_;
  bool ipv6_;
};

}  // namespace hp
