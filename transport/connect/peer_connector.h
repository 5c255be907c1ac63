#pragma once

#include "transport/connect/dialer.h"
#include "transport/connect/handshake.h"
#include "transport/connect/host_check.h"
#include "transport/connect/options.h"
#include "transport/connect/tcp_listener.h"
#include "transport/connect/tls.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

namespace hp {

/// Connects a transport to its peers over TCP: dials those of lower rank, again and again, accepts the others and
/// clients, performs the handshake with each, and watches the deadlines. Each peer of the table gets exactly one
/// outcome: Callbacks::connected, TransportHandler::OnConnectFailed or HandshakePolicy::OnRefused. Connections that
/// fail the handshake are logged, at most one line a second. A peer whose link has closed may connect again if the
/// policy accepts it. Everything runs on the progress thread, except the constructor and Start (before that thread
/// runs) and Stop (after it).
class PeerConnector {
 public:
  struct Callbacks {
    /// Whether the transport has a link to this rank, open or being set up: then a second one is refused.
    std::function<bool(Rank)> is_connected;
    /// The handshake with this rank is done: the stream is the transport's from now on, with no byte read beyond the
    /// handshake. It must be gone before this object is. @param name of the peer, for messages: "conv1
    /// (10.0.0.1:5000)".
    std::function<void(Rank, const std::string& name, std::unique_ptr<ByteStream>)> connected;
  };

  /// @param io the progress thread's. @param listener null: nobody can connect to us (a client). `io`, `options`,
  /// `handler` and `policy` must outlive it.
  PeerConnector(boost::asio::io_context* io, const ConnectOptions& options, std::unique_ptr<TcpListener> listener,
                TransportHandler* handler, HandshakePolicy* policy, Callbacks callbacks);

  /// Starts to accept and to connect. ConnectOptions::connect_deadline_ms counts from here. Once.
  void Start();
  /// Ends all attempts and handshakes without an outcome, and stops listening.
  void Stop();

 private:
  struct Peer {
    PeerAddress peer;
    std::shared_ptr<Dialer> dialer;  // null: it connects to us
    bool settled = false;            // an outcome was reported
  };

  void Accept();
  void Dial(Peer* peer);
  /// Starts the handshake on a connection. @param dialed the peer that we connected to; null: it was accepted.
  void Shake(TcpSocket socket, Peer* dialed);
  /// Decides about a hello: the policy's answer, then whether that rank may connect in this way.
  StatusOr<Rank> Judge(std::string_view hello, const Peer* dialed);
  std::unique_ptr<Proof> MakeProof(const Peer* dialed) const;
  /// Whether who connected to us may speak as node `claimed` (-1: as no node).
  Status CheckClaim(Rank claimed, const Proof* proof, const boost::asio::ip::address& from);
  /// Whether a peer that wants to give orders may. @param from_here it speaks from this host.
  static Status CheckControl(const Proof* proof, bool from_here);
  Status CheckHost(Rank claimed, const boost::asio::ip::address& from);
  Status CheckAccepted(Rank rank);
  void OnAcceptedDone(const std::shared_ptr<Handshake>& handshake, const Handshake::Result& result);
  void OnDialedDone(Peer* peer, const std::shared_ptr<Handshake>& handshake, const Handshake::Result& result);
  void Connected(Rank rank, const std::shared_ptr<Handshake>& handshake);
  /// Drops the oldest accepted handshakes beyond ConnectOptions::max_handshakes and max_handshakes_per_host.
  void LimitStrangers();
  /// An outcome of `peer` is reported, or nobody wants one: stops its dialer.
  void Settle(Peer* peer);
  /// Runs Tick after a pause while there is anything to time out.
  void ScheduleTick();
  void Tick();
  void DropSlowHandshakes();
  /// Says every 15 s whom we wait for.
  void ReportWaiting();
  void ReportMissing();
  Peer* Find(Rank rank);

  boost::asio::io_context* const io_;
  const ConnectOptions& options_;
  TransportHandler* const handler_;
  HandshakePolicy* const policy_;
  const Callbacks callbacks_;
  std::unique_ptr<TcpListener> listener_;
  boost::asio::ip::tcp::acceptor acceptor_;
  const std::unique_ptr<TlsContext> tls_;  // null: connections are in clear
  std::shared_ptr<HostCheck> host_check_;
  boost::asio::steady_timer timer_;
  std::map<Rank, Peer> peers_;
  std::list<std::shared_ptr<Handshake>> handshakes_;  // oldest first
  int64_t deadline_ns_ = 0, next_report_ns_ = 0;      // for all peers to appear; of whom we wait for
  bool ticking_ = false;                              // timer_ is set
  bool accept_failed_ = false;                        // Accept is tried again by the next Tick
  LogLimiter limiter_;
};

}  // namespace hp
