#pragma once

#include "transport/connect/socket.h"

#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hp {

/// Connects to one host, again and again until it is stopped, since nodes of a job start in any order. An attempt tries
/// all addresses of the host's name, IPv6 too, one after the other, in the resolver's order. Each
/// connection is given to `on_socket`, whose owner performs the handshake and then calls Retry or Stop. Hold it by
/// shared_ptr: its pending operations keep it alive, also after Stop, but `on_socket` is released by Stop. Progress
/// thread only; nothing blocks.
class Dialer : public std::enable_shared_from_this<Dialer> {
 public:
  using OnSocket = std::function<void(TcpSocket socket)>;

  /// @param io runs on the progress thread and outlives the dialer. @param host name or address, resolved anew for each
  /// attempt. @param bind_host as in ConnectOptions.
  /// @param on_socket gets each connection, configured (socket.h); no attempt follows until Retry.
  Dialer(boost::asio::io_context* io, std::string host, int port, std::string bind_host, OnSocket on_socket);

  /// Starts the next attempt after a pause, which doubles from 10 to 250 ms. @param cause why the last one failed, for
  /// cause(). No effect after Stop.
  void Retry(const std::string& cause);
  /// Starts the first attempt, at once.
  void Attempt();
  /// Cancels everything; on_socket is not called any more.
  void Stop();
  /// Gives up an address from which the network does not answer, and goes on to the next, or retries. Name resolution
  /// cannot be given up.
  void AbortAttempt();
  /// When the attempt at the current address began, by Clock::Real(); 0: there is none.
  int64_t attempt_since_ns() const { return attempt_since_ns_; }
  /// Why the last attempt failed, for messages.
  const std::string& cause() const { return cause_; }

 private:
  /// Tries the next address. @param cause why the one before failed.
  void ConnectNext(const std::string& cause);
  boost::system::error_code OpenFor(const boost::asio::ip::tcp::endpoint& target);
  void OnConnected();

  const std::string host_;
  const int port_;
  const std::string bind_host_;
  OnSocket on_socket_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::steady_timer pause_;
  TcpSocket socket_;
  std::vector<boost::asio::ip::tcp::endpoint> targets_;  // of this attempt
  size_t next_target_ = 0;
  int64_t attempt_since_ns_ = 0;
  int pause_ms_ = 10;
  bool stopped_ = false;
  std::string cause_ = "no attempt yet";
};

}  // namespace hp
