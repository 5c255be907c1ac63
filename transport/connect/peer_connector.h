#pragma once

#include "transport/connect/dialer.h"
#include "transport/connect/handshake.h"
#include "transport/connect/options.h"
#include "transport/connect/tcp_listener.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

namespace hp {

/// Finds the peers of a transport: connects to those of lower rank, again and again, accepts the others and clients,
/// shakes hands with each, and keeps the deadlines. Each peer of the table gets exactly one outcome: `connected`,
/// TransportHandler::OnConnectFailed or HandshakePolicy::OnRefused; what strangers send costs one log line, of which
/// one a second is written. Once a peer has left, it may come again if the policy lets it. Progress thread, but for
/// constructor, Start (before it runs) and Stop (after it).
class PeerConnector {
 public:
  struct Callbacks {
    /// Whether the transport has an open or coming link to this rank, so that a second one is refused.
    std::function<bool(Rank)> is_connected;
    /// The handshake is done. @param name of the peer, for messages: "conv1 (10.0.0.1:5000)".
    std::function<void(Rank, const std::string& name, TcpSocket)> connected;
  };

  /// @param io runs on the progress thread. @param listener null: nobody can connect to us. @param options, handler and
  /// policy outlive it.
  PeerConnector(boost::asio::io_context* io, const ConnectOptions& options, std::unique_ptr<TcpListener> listener,
                TransportHandler* handler, HandshakePolicy* policy, Callbacks callbacks);

  /// Begins to accept and to connect; the time for peers to appear runs from here.
  void Start();
  /// Ends all attempts and handshakes without an outcome, and closes the listener.
  void Stop();

 private:
  struct Peer {
    PeerAddress peer;
    std::shared_ptr<Dialer> dialer;  // null: it connects to us
    bool settled = false;            // an outcome was reported
  };

  void Accept();
  void Dial(Peer* peer);
  void Shake(TcpSocket socket, Peer* dialed);
  StatusOr<Rank> Judge(std::string_view hello, const Peer* dialed);
  Status CheckAccepted(Rank rank);
  void OnAcceptedDone(const std::shared_ptr<Handshake>& handshake, const Handshake::Result& result);
  void OnDialedDone(Peer* peer, const std::shared_ptr<Handshake>& handshake, const Handshake::Result& result);
  void Connected(Rank rank, const std::shared_ptr<Handshake>& handshake);
  void LimitStrangers();
  void Settle(Peer* peer);
  void ScheduleTick();
  void Tick();
  void DropSlowHandshakes();
  void ReportMissing();
  Peer* Find(Rank rank);

  boost::asio::io_context* const io_;
  const ConnectOptions& options_;
  TransportHandler* const handler_;
  HandshakePolicy* const policy_;
  const Callbacks callbacks_;
  std::unique_ptr<TcpListener> listener_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer timer_;
  std::map<Rank, Peer> peers_;
  std::list<std::shared_ptr<Handshake>> handshakes_;  // oldest first
  int64_t deadline_ns_ = 0;
  bool ticking_ = false;
  bool accept_failed_ = false;
  LogLimiter limiter_;
};

}  // namespace hp
