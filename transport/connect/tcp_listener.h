#pragma once

#include "hp/status.h"

#include <memory>
#include <string>

namespace hp {

/// A listening socket, closed on destruction. Made before the transport, so that a node can take the first entry of the
/// table whose port is free. One thread at a time.
class TcpListener {
 public:
  /// Listens on `host` (name or address; empty: on all addresses) and `port` (0: any free one).
  /// @return kFailedPrecondition: it can't; the message names the address, the cause, and who holds the port.
  static StatusOr<std::unique_ptr<TcpListener>> Bind(const std::string& host, int port);
  ~TcpListener();
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;

  /// The port that it listens on, also where 0 was asked for.
  int port() const { return port_; }
  /// Hands the descriptor over: the caller closes it.
  int Release();
  /// The family of its address; else IPv4.
  bool ipv6() const { return ipv6_; }

 private:
  TcpListener(int fd, int port, bool ipv6) : fd_(fd), port_(port), ipv6_(ipv6) {}

  int fd_;
  int port_;
  bool ipv6_;
};

}  // namespace hp
