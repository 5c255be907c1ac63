#include "transport/connect/peer_connector.h"

#include "base/host.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace hp {
namespace {

// How late a deadline may be noticed.
constexpr std::chrono::milliseconds kTick(20);
constexpr int64_t kReportNs = 15 * kNsPerSecond;

std::unique_ptr<TlsContext> MakeTls(const ConnectOptions& options) {
  if (!options.tls) return nullptr;
  CHECK(options.keys) << "TLS needs the job's token";
  return std::make_unique<TlsContext>(
      TlsContext::Options{.keys = *options.keys, .client = options.client, .control = options.control});
}

std::string Label(const PeerAddress& peer) { return peer.name + " (" + HostPort(peer.host, peer.port) + ")"; }

}  // namespace

PeerConnector::PeerConnector(boost::asio::io_context* io, const ConnectOptions& options,
                             std::unique_ptr<TcpListener> listener, TransportHandler* handler, HandshakePolicy* policy,
                             Callbacks callbacks)
    : io_(io),
      options_(options),
      handler_(handler),
      policy_(policy),
      callbacks_(std::move(callbacks)),
      listener_(std::move(listener)),
      acceptor_(*io),
      tls_(MakeTls(options)),
      host_check_(std::make_shared<HostCheck>(io, options.clock)),
      timer_(*io),
      limiter_(options.clock) {
  for (const PeerAddress& peer : options.peers) {
    if (options.client || peer.rank != options.rank) peers_[peer.rank].peer = peer;
  }
}

void PeerConnector::Start() {
  deadline_ns_ = options_.clock->NowNs() + options_.connect_deadline_ms * kNsPerMs;
  if (listener_) {
    const auto protocol = listener_->ipv6() ? boost::asio::ip::tcp::v6() : boost::asio::ip::tcp::v4();
    acceptor_.assign(protocol, listener_->Release());
    Accept();
  }
  for (auto& [rank, peer] : peers_) {
    if (options_.client || rank < options_.rank) {
      Dial(&peer);
    } else {
      host_check_->Expect(rank, peer.peer.host);
    }
  }
  next_report_ns_ = options_.clock->NowNs() + kReportNs;
  ScheduleTick();
}

void PeerConnector::Stop() {
  for (auto& [rank, peer] : peers_) Settle(&peer);
  handshakes_.clear();
  host_check_->Stop();
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  timer_.cancel();
}

void PeerConnector::Accept() {
  acceptor_.async_accept([this](const boost::system::error_code& error, TcpSocket socket) {
    if (error == boost::asio::error::operation_aborted) return;
    if (error) {
      // Out of descriptors, most likely: try again with the next tick.
      std::string suffix;
      if (limiter_.Allow(&suffix)) LOG(WARNING) << "can't accept a connection: " << error.message() << suffix;
      accept_failed_ = true;
      return ScheduleTick();
    }
    Configure(&socket);
    Shake(std::move(socket), nullptr);
    LimitStrangers();
    Accept();
  });
}

void PeerConnector::Dial(Peer* peer) {
  peer->dialer = std::make_shared<Dialer>(io_, peer->peer.host, peer->peer.port, options_.bind_host,
                                          [this, peer](TcpSocket socket) { Shake(std::move(socket), peer); });
  peer->dialer->Attempt();
}

void PeerConnector::Shake(TcpSocket socket, Peer* dialed) {
  const int64_t deadline_ns = options_.clock->NowNs() + options_.handshake_deadline_ms * kNsPerMs;
  Handshake::Callbacks callbacks;
  callbacks.hello = [this](std::string_view to) { return to.empty() ? policy_->Hello() : policy_->Answer(to); };
  boost::system::error_code gone;
  const auto from = socket.remote_endpoint(gone).address();
  const bool from_here = from.is_loopback() || from == socket.local_endpoint(gone).address();
  callbacks.judge = [this, dialed, from, from_here](std::string_view hello, const Proof* proof) -> StatusOr<Rank> {
    if (dialed == nullptr) {
      HP_RETURN_IF_ERROR(CheckClaim(policy_->ClaimedRank(hello), proof, from));
      if (policy_->ClaimsControl(hello)) HP_RETURN_IF_ERROR(CheckControl(proof, from_here));
    }
    return Judge(hello, dialed);
  };
  callbacks.done = [this, dialed](const std::shared_ptr<Handshake>& handshake, const Handshake::Result& result) {
    handshakes_.remove(handshake);
    dialed == nullptr ? OnAcceptedDone(handshake, result) : OnDialedDone(dialed, handshake, result);
  };
  std::unique_ptr<ByteStream> stream =
      tls_ ? tls_->NewStream(std::move(socket), dialed == nullptr) : std::make_unique<ByteStream>(std::move(socket));
  handshakes_.push_back(std::make_shared<Handshake>(std::move(stream), dialed == nullptr, deadline_ns,
                                                    MakeProof(dialed), std::move(callbacks)));
  handshakes_.back()->Start();
  ScheduleTick();
}

void PeerConnector::LimitStrangers() {
  const auto limit = [this](size_t most, const char* why, const std::function<bool(const Handshake&)>& counts) {
    const auto counted = [&counts](const std::shared_ptr<Handshake>& one) { return one->accepted() && counts(*one); };
    if (std::count_if(handshakes_.begin(), handshakes_.end(), counted) <= static_cast<long>(most)) return;
    const std::shared_ptr<Handshake> oldest = *std::find_if(handshakes_.begin(), handshakes_.end(), counted);
    oldest->Drop(why);
  };
  const std::string newest = handshakes_.empty() ? "" : handshakes_.back()->host();
  limit(options_.max_handshakes_per_host, "too many connections of its host wait for their handshake",
        [&newest](const Handshake& one) { return one.host() == newest; });
  limit(options_.max_handshakes, "too many connections wait for their handshake",
        [](const Handshake&) { return true; });
}

StatusOr<Rank> PeerConnector::Judge(std::string_view hello, const Peer* dialed) {
  HP_ASSIGN_OR_RETURN(const Rank rank, policy_->Accept(hello));
  if (dialed == nullptr) {
    HP_RETURN_IF_ERROR(CheckAccepted(rank));
  } else if (rank != dialed->peer.rank) {
    return FailedPrecondition("%s says that it is node %d, the table says %d", Label(dialed->peer).c_str(), rank,
                              dialed->peer.rank);
  }
  if (callbacks_.is_connected(rank)) return FailedPrecondition("node %d is connected already", rank);
  return rank;
}

std::unique_ptr<Proof> PeerConnector::MakeProof(const Peer* dialed) const {
  if (!options_.keys) return nullptr;
  return std::make_unique<Proof>(&*options_.keys, Proof::Self{.client = options_.client,
                                                              .control = options_.control,
                                                              .rank = options_.rank,
                                                              .accepted = dialed == nullptr,
                                                              .dialed = dialed == nullptr ? 0 : dialed->peer.rank});
}

// A token proves who speaks, wherever it is; without one, only the host that it speaks from tells anything.
Status PeerConnector::CheckClaim(Rank claimed, const Proof* proof, const boost::asio::ip::address& from) {
  if (proof == nullptr) return CheckHost(claimed, from);
  if (claimed < 0 || (!proof->peer_is_client() && proof->peer_rank() == claimed)) return OkStatus();
  return FailedPrecondition("its hello is in another name than its proof");
}

Status PeerConnector::CheckControl(const Proof* proof, bool from_here) {
  if (proof != nullptr && proof->peer_is_controller()) return OkStatus();
  if (proof != nullptr) return FailedPrecondition("orders need the job's token");
  if (from_here) return OkStatus();
  return FailedPrecondition("without a token, orders must come from the host of the node that takes them");
}

Status PeerConnector::CheckHost(Rank claimed, const boost::asio::ip::address& from) {
  if (claimed < 0 || claimed == options_.rank) return OkStatus();  // our own name: the policy says what is wrong
  HP_RETURN_IF_ERROR(CheckAccepted(claimed));
  const std::string& name = Find(claimed)->peer.name;
  switch (host_check_->Belongs(claimed, from)) {
    case HostCheck::Answer::kYes:
      return OkStatus();
    case HostCheck::Answer::kAskAgain:
      return Unavailable("its hello is in the name of %s, whose host is being looked up", name.c_str());
    case HostCheck::Answer::kNo:
      break;
  }
  return FailedPrecondition("a hello in the name of %s must come from its host", name.c_str());
}

Status PeerConnector::CheckAccepted(Rank rank) {
  if (rank >= kFirstClientRank) return OkStatus();
  const Peer* peer = Find(rank);
  if (peer == nullptr || peer->dialer != nullptr)
    return FailedPrecondition("node %d is not expected to connect here", rank);
  // Connected once, it may come again if the policy lets it; given up, it may not.
  return OkStatus();
}

void PeerConnector::Connected(Rank rank, const std::shared_ptr<Handshake>& handshake) {
  // Two hellos of one rank may both have been judged before the first READY.
  if (callbacks_.is_connected(rank)) return;
  Peer* peer = Find(rank);
  if (peer != nullptr) Settle(peer);
  const std::string name = peer != nullptr ? Label(peer->peer) : "client " + handshake->address();
  if (rank >= kFirstClientRank) policy_->OnClientAddress(rank, handshake->address());
  callbacks_.connected(rank, name, handshake->TakeStream());
}

void PeerConnector::OnAcceptedDone(const std::shared_ptr<Handshake>& handshake, const Handshake::Result& result) {
  if (result.end == Handshake::End::kConnected) return Connected(result.rank, handshake);
  if (result.end == Handshake::End::kRefusedUs) {
    if (Peer* peer = Find(result.rank)) Settle(peer);
    return policy_->OnRefused(result.rank, result.status);
  }
  if (result.end == Handshake::End::kRefused) policy_->OnRefusalSent(handshake->hello());
  std::string suffix;
  if (!limiter_.Allow(&suffix)) return;
  const char* what = result.end == Handshake::End::kRefused ? "refused" : "dropped";
  LOG(WARNING) << what << " a connection from " << handshake->address() << ": " << result.status.message() << suffix;
}

void PeerConnector::OnDialedDone(Peer* peer, const std::shared_ptr<Handshake>& handshake,
                                 const Handshake::Result& result) {
  if (peer->settled) return;
  switch (result.end) {
    case Handshake::End::kConnected:
      return Connected(result.rank, handshake);
    case Handshake::End::kDropped:
      return peer->dialer->Retry(result.status.message());
    case Handshake::End::kRefused:
      Settle(peer);
      return handler_->OnConnectFailed(peer->peer.rank, result.status);
    case Handshake::End::kRefusedUs:
      Settle(peer);
      return policy_->OnRefused(peer->peer.rank, result.status.Prepend(Label(peer->peer) + " refused us"));
  }
}

void PeerConnector::Settle(Peer* peer) {
  peer->settled = true;
  if (peer->dialer) peer->dialer->Stop();
}

void PeerConnector::ScheduleTick() {
  const bool waiting =
      std::any_of(peers_.begin(), peers_.end(), [](const auto& entry) { return !entry.second.settled; });
  if (ticking_ || (!waiting && handshakes_.empty() && !accept_failed_)) return;
  ticking_ = true;
  timer_.expires_after(kTick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    ticking_ = false;
    if (!error) Tick();
  });
}

void PeerConnector::Tick() {
  DropSlowHandshakes();
  ReportWaiting();
  ReportMissing();
  if (std::exchange(accept_failed_, false)) Accept();
  ScheduleTick();
}

void PeerConnector::DropSlowHandshakes() {
  const int64_t now_ns = options_.clock->NowNs(), real_ns = Clock::Real()->NowNs();
  std::vector<std::shared_ptr<Handshake>> slow;
  for (const auto& handshake : handshakes_) {
    if (now_ns >= handshake->deadline_ns()) slow.push_back(handshake);
  }
  for (const auto& handshake : slow)
    handshake->Drop(Format("no hello within %g s", options_.handshake_deadline_ms / 1e3));
  for (auto& [rank, peer] : peers_) {
    const int64_t since_ns = peer.dialer ? peer.dialer->attempt_since_ns() : 0;
    if (since_ns != 0 && real_ns - since_ns > options_.handshake_deadline_ms * kNsPerMs) peer.dialer->AbortAttempt();
  }
}

void PeerConnector::ReportWaiting() {
  const int64_t now_ns = options_.clock->NowNs();
  if (now_ns < next_report_ns_) return;
  next_report_ns_ = now_ns + kReportNs;
  std::string names;
  for (const auto& [rank, peer] : peers_) {
    if (peer.settled) continue;
    names += (names.empty() ? "" : ", ") + Label(peer.peer) +
             (peer.dialer ? ": " + peer.dialer->cause() : ", which has not connected");
  }
  if (names.empty()) return;
  LOG(INFO) << Format("waiting for %s (%lld s more)", names.c_str(),
                      static_cast<long long>((deadline_ns_ - now_ns) / kNsPerSecond));
}

void PeerConnector::ReportMissing() {
  if (options_.clock->NowNs() < deadline_ns_) return;
  for (auto& [rank, peer] : peers_) {
    if (peer.settled) continue;
    const std::string cause = peer.dialer ? " (last attempt: " + peer.dialer->cause() + ")" : "";
    Settle(&peer);
    handler_->OnConnectFailed(rank, DeadlineExceeded("%s did not appear within %g s%s", Label(peer.peer).c_str(),
                                                     options_.connect_deadline_ms / 1e3, cause.c_str()));
  }
}

PeerConnector::Peer* PeerConnector::Find(Rank rank) {
  const auto it = peers_.find(rank);
  return it == peers_.end() ? nullptr : &it->second;
}

}  // namespace hp
