// Each sign of a loss (end of stream, silence, failed data endpoint) is noted with its time, and counts only after a
// moment in which a better explanation may arrive: a LOST from a node that knows more, or a BYE. Tick looks for signs
// whose time is up, and decides on the oldest. A decision is told to all before the streams are ended, and then the
// node reads on (kLeaving): accusations of others that arrive meanwhile are compared by one order, the same on all
// nodes, so all that heard the same end with the same loss.
#include "scheduler/control/membership.h"

#include "base/format.h"
#include "proto/parse.h"
#include "proto/wire.pb.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

namespace hp {
namespace {

double Seconds(int64_t ns) { return static_cast<double>(ns) / kNsPerSecond; }

std::string Encode(const Loss& loss) {
  LostNotice notice;
  notice.set_lost(loss.lost);
  notice.set_detector(loss.detector);
  notice.set_cause(loss.cause);
  notice.set_status(static_cast<int>(loss.code));
  return notice.SerializeAsString();
}

/// Of a notice: the peer may have written anything, and only a node itself knows why it fails.
StatusCode CodeOf(const LostNotice& notice) {
  const auto code = static_cast<StatusCode>(notice.status());
  switch (code) {
    case StatusCode::kInternal:
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kDataLoss:
    case StatusCode::kNumeric:
    case StatusCode::kResourceExhausted:
    case StatusCode::kStopped:
      return notice.lost() == notice.detector() ? code : StatusCode::kUnavailable;
    default:
      return StatusCode::kUnavailable;
  }
}

}  // namespace

Membership::Membership(Options options, const Clock* clock, MembershipOutput* output)
    : options_(std::move(options)), clock_(clock), output_(output), peers_(options_.names.size()) {
  CHECK_GE(options_.self, 0);
  CHECK_LT(options_.self, static_cast<int>(peers_.size()));
  last_tick_ns_ = clock_->NowNs();
  beat_ = last_tick_ns_ / options_.heartbeat_ns;
}

void Membership::OnConnected(Rank peer) {
  peers_.at(peer).connected = true;
  peers_[peer].heard_ns = peers_[peer].sent_ns = clock_->NowNs();
}

void Membership::OnHeard(Rank peer, int64_t at_ns) {
  peers_.at(peer).heard_ns = std::max(peers_[peer].heard_ns, at_ns);
}

void Membership::OnMessage(Rank peer, MemberMessage type, std::string_view payload) {
  OnHeard(peer, clock_->NowNs());
  if (type == MemberMessage::kBye) {
    peers_[peer].bye = true;
    EndIfAllSaidBye();
  } else if (type == MemberMessage::kLost) {
    LostNotice notice;
    const int size = static_cast<int>(peers_.size());
    if (!ParseMessage(payload, &notice) || notice.lost() < 0 || notice.lost() >= size || notice.detector() < 0 ||
        notice.detector() >= size) {
      LOG(WARNING) << "ignoring a LOST message from node " << options_.names[peer]
                   << ": it names a node that is not in the routing table";
      return;
    }
    Consider({notice.lost(), notice.detector(), Printable(notice.cause()), CodeOf(notice)});
  }
}

void Membership::OnClosed(Rank peer, const Status& status) {
  Peer& entry = peers_.at(peer);
  if (entry.closed) return;
  entry.closed = true;
  entry.closed_ns = clock_->NowNs();
  entry.closed_why = status.message();
  LeaveIfReady(entry.closed_ns);
}

void Membership::OnDataFailure(Rank peer, const Status& cause) {
  Peer& entry = peers_.at(peer);
  if (entry.failed_ns || bye_sent_ || state_ != State::kRunning) return;
  entry.failed_ns = clock_->NowNs();
  entry.failed_why = cause.message();
}

void Membership::SendBye() {
  if (bye_sent_ || state_ != State::kRunning) return;
  bye_sent_ = true;
  output_->SendToAll(MemberMessage::kBye, "");
  EndIfAllSaidBye();
}

void Membership::Fail(const Status& cause) {
  Loss loss = Lost(options_.self, cause.message());
  loss.code = cause.code();
  if (state_ == State::kRunning) Decide(loss);
}

int64_t Membership::Tick(bool listened) {
  const int64_t now = clock_->NowNs();
  const int64_t passed = now - last_tick_ns_;
  Forgive(passed, listened, now);
  last_tick_ns_ = now;
  if (state_ == State::kRunning) SendHeartbeats(now);
  if (state_ == State::kRunning) LookForLosses(now);
  LeaveIfReady(now);
  return listened ? std::max<int64_t>(passed - options_.attention_ns, 0) : passed;
}

/// Also to peers that have said BYE: they wait for ours, and for those of others. Where nothing else is sent,
/// heartbeats go at moments that all nodes of a host have in common, the multiples of heartbeat_ns by its clock: so a
/// node that wakes up for one finds many. The transport is asked only when a heartbeat would be due.
void Membership::SendHeartbeats(int64_t now) {
  const bool beat = std::exchange(beat_, now / options_.heartbeat_ns) != now / options_.heartbeat_ns;
  const int64_t tick_ns = options_.attention_ns / 2;
  for (Rank rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    Peer& peer = peers_[rank];
    if (rank == options_.self || !peer.connected || peer.closed) continue;
    if (!beat && now - peer.sent_ns < options_.heartbeat_ns) continue;
    peer.sent_ns = std::max(peer.sent_ns, output_->LastSentNs(rank));
    const bool quiet = peer.sent_ns < peer.heartbeat_ns + tick_ns;  // since the last heartbeat
    const int64_t due_ns = !beat ? options_.heartbeat_ns : quiet ? tick_ns : options_.heartbeat_ns / 2;
    if (now - peer.sent_ns < due_ns) continue;
    peer.sent_ns = peer.heartbeat_ns = now;
    output_->SendHeartbeat(rank);
  }
}

/// What arrived while nobody listened is not read yet, so that much of the others' silence is our own deafness.
void Membership::Forgive(int64_t passed_ns, bool listened, int64_t now) {
  const int64_t counted_ns = listened ? std::min(passed_ns, options_.attention_ns) : 0;
  const auto later = [=](int64_t at_ns) { return std::min(at_ns + passed_ns - counted_ns, now); };
  for (Peer& peer : peers_) {
    peer.heard_ns = later(peer.heard_ns);
    if (peer.closed) peer.closed_ns = later(peer.closed_ns);
    if (peer.failed_ns) peer.failed_ns = later(*peer.failed_ns);
  }
}

void Membership::LookForLosses(int64_t now) {
  std::optional<Suspicion> earliest;
  for (Rank rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    const std::optional<Suspicion> suspicion = SuspicionOf(rank, peers_[rank], now);
    if (suspicion && (!earliest || suspicion->since_ns < earliest->since_ns)) earliest = suspicion;
  }
  if (earliest) Decide(earliest->loss);
}

std::optional<Membership::Suspicion> Membership::SuspicionOf(Rank rank, const Peer& peer, int64_t now) const {
  if (rank == options_.self) {
    if (!peer.failed_ns || now - *peer.failed_ns < options_.data_grace_ns) return std::nullopt;
    return Suspicion{*peer.failed_ns, Lost(rank, peer.failed_why)};
  }
  if (!peer.connected) return std::nullopt;
  std::optional<Suspicion> of_data;
  if (peer.failed_ns && now - *peer.failed_ns >= options_.data_grace_ns) {
    of_data = Suspicion{*peer.failed_ns, Lost(rank, peer.failed_why)};
  }
  if (peer.bye) return of_data;  // nobody misses it, but what it sent before may get lost with its host
  if (peer.closed) {
    if (now - peer.closed_ns < options_.eof_wait_ns) return std::nullopt;
    return Suspicion{peer.closed_ns, Lost(rank, "its connection closed: " + peer.closed_why)};
  }
  if (now - peer.heard_ns >= options_.silence_ns) {
    if (HearsNobody(now)) {
      return Suspicion{peer.heard_ns, Lost(options_.self, Format("no heartbeat from any node for %.1f s: it is "
                                                                 "disconnected, or all others are lost",
                                                                 Seconds(now - peer.heard_ns)))};
    }
    return Suspicion{peer.heard_ns, Lost(rank, Format("no heartbeat for %.1f s", Seconds(now - peer.heard_ns)))};
  }
  return of_data;
}

/// One silent peer is lost; when all of several are silent together, it is rather our own link.
bool Membership::HearsNobody(int64_t now) const {
  int live = 0;
  for (Rank rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    if (rank == options_.self || !peers_[rank].live()) continue;
    if (now - peers_[rank].heard_ns < 2 * options_.heartbeat_ns) return false;
    ++live;
  }
  return live > 1;
}

void Membership::Consider(const Loss& loss) {
  if (state_ == State::kRunning) {
    Decide(loss);
  } else if (state_ == State::kLeaving) {
    accusations_.emplace(loss.detector, loss);
    // Whoever says so of itself is right; else the node with the lowest rank has the word. All who hear the same agree.
    const auto key = [](const Loss& l) { return std::pair(l.lost != l.detector, l.detector); };
    for (const auto& [detector, other] : accusations_) {
      if (key(other) < key(loss_)) loss_ = other;
    }
  }
}

void Membership::Decide(const Loss& loss) {
  state_ = State::kLeaving;
  loss_ = loss;
  accusations_.emplace(loss.detector, loss);
  decided_ns_ = clock_->NowNs();
  output_->SendToAll(MemberMessage::kLost, Encode(loss));
  output_->ShutdownAll();
  LeaveIfReady(decided_ns_);
}

void Membership::LeaveIfReady(int64_t now) {
  if (state_ != State::kLeaving && state_ != State::kEnding) return;
  const bool leaving = state_ == State::kLeaving;
  bool waiting = false;
  for (Rank rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    const Peer& peer = peers_[rank];
    // An accused node that is not silent may accuse as well, and then all have to hear both.
    const bool silent = now - peer.heard_ns >= 2 * options_.heartbeat_ns;
    if (rank != options_.self && peer.connected && !peer.closed && !(leaving && silent && Accused(rank)))
      waiting = true;
  }
  if (waiting && now - decided_ns_ < (leaving ? options_.linger_ns : options_.ending_ns)) return;
  state_ = leaving ? State::kLost : State::kDone;
}

bool Membership::Accused(Rank rank) const {
  return std::any_of(accusations_.begin(), accusations_.end(),
                     [rank](const auto& entry) { return entry.second.lost == rank; });
}

void Membership::EndIfAllSaidBye() {
  if (!bye_sent_ || state_ != State::kRunning) return;
  for (Rank rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    if (rank != options_.self && !peers_[rank].bye) return;
  }
  state_ = State::kEnding;
  decided_ns_ = clock_->NowNs();
  output_->ShutdownAll();
  LeaveIfReady(decided_ns_);
}

std::string Membership::Describe() const {
  const std::string& name = options_.names[loss_.lost];
  if (loss_.lost == options_.self && loss_.detector == options_.self) {
    return Format("node \"%s\", this one, is lost: %s", name.c_str(), loss_.cause.c_str());
  }
  return Format("lost node \"%s\"%s: %s (detected by node \"%s\")", name.c_str(),
                loss_.lost == options_.self ? ", which is this one" : "", loss_.cause.c_str(),
                options_.names[loss_.detector].c_str());
}

}  // namespace hp
