#pragma once

#include "transport/connect/socket.h"

#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <string>

namespace hp {

/// Connects to one address, again and again until it is stopped, since nodes of a job start in any order. Each
/// connection goes to `on_socket`, whose owner shakes hands and then says Retry or Stop. Its pending operations keep it
/// alive; it does not keep `on_socket` after Stop. Progress thread.
class Dialer : public std::enable_shared_from_this<Dialer> {
 public:
  using OnSocket = std::function<void(TcpSocket socket)>;

  /// @param host name or address, resolved anew for each attempt. @param bind_host as in ConnectOptions.
  /// @param on_socket is called with each connection, configured; answer with Retry or Stop.
  Dialer(boost::asio::io_context* io, std::string host, int port, std::string bind_host, OnSocket on_socket);

  /// The next attempt, after a pause that doubles from 10 to 250 ms. @param cause why the last one came to nothing.
  void Retry(const std::string& cause);
  /// Begins the first attempt.
  void Attempt();
  /// Ends all; on_socket is not called any more.
  void Stop();
  /// Gives up an attempt that the network does not answer, and tries again.
  void AbortAttempt();
  /// When the attempt under way began (real time), 0: none is.
  int64_t attempt_since_ns() const { return attempt_since_ns_; }
  /// Why the last attempt came to nothing.
  const std::string& cause() const { return cause_; }

 private:
  void Connect(const boost::asio::ip::tcp::resolver::results_type& results);
  void OnConnected();

  const std::string host_;
  const int port_;
  const std::string bind_host_;
  OnSocket on_socket_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::steady_timer pause_;
  TcpSocket socket_;
  boost::asio::ip::tcp::endpoint target_;
  int64_t attempt_since_ns_ = 0;
  int pause_ms_ = 10;
  bool stopped_ = false;
  std::string cause_ = "no attempt yet";
};

}  // namespace hp
