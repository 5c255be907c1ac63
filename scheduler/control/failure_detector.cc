// The thread ticks the membership every 50 ms, or at once after an event that changed its state. Most events change
// none: in a job of n nodes each hears n - 1 BYEs and n - 1 ends of stream at its end, and a tick looks at all peers,
// so a tick for each would be n^3 looks in all. What the transport heard is read at each tick (LastHeardNs) rather than
// reported byte by byte, and what it sent (LastSentNs) where a heartbeat is due: a peer that gets bytes anyway needs
// none. Everything goes through one lock, which is held while messages are sent, so that a LOST is queued before the
// streams are ended.
#include "scheduler/control/failure_detector.h"

#include "base/format.h"

#include "glog/logging.h"

#include <chrono>
#include <utility>

namespace hp {
namespace {

constexpr auto kTick = std::chrono::milliseconds(50);
constexpr int64_t kToldDeafnessNs = kNsPerSecond;

Membership::Options OptionsFor(const RoutingTable& table, Rank self) {
  Membership::Options options;
  options.self = self;
  for (const NodeInfo& node : table.nodes()) options.names.push_back(node.name);
  return options;
}

}  // namespace

FailureDetector::FailureDetector(const RoutingTable& table, Rank self, Transport* transport, const Clock* clock,
                                 LostSink on_lost)
    : nodes_(table.size()),
      self_(self),
      transport_(transport),
      clock_(clock),
      on_lost_(std::move(on_lost)),
      name_(table.node(self).name),
      membership_(OptionsFor(table, self), clock, this) {}

FailureDetector::~FailureDetector() { Stop(); }

void FailureDetector::Stop() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  thread_.Join();
}

void FailureDetector::Start() {
  thread_ = Thread("failures", [this] { Run(); });
}

void FailureDetector::Run() {
  for (;;) {
    Status lost;
    bool said = false;
    {
      MutexLock lock(&mutex_);
      if (stop_) return;
      for (Rank rank = 0; rank < nodes_; ++rank) {
        if (rank == self_) continue;
        if (const int64_t heard = transport_->LastHeardNs(rank); heard > 0) membership_.OnHeard(rank, heard);
      }
      const int64_t deaf_ns = membership_.Tick(Listened());
      WarnOfDeafness(deaf_ns);
      SignalIfStateChanged();
      if (membership_.state() == Membership::State::kLost) {
        lost = Status(membership_.loss().code, membership_.Describe());
        said = membership_.loss().lost == membership_.loss().detector;
      } else {
        changed_.WaitFor(&mutex_, UntilTick());
      }
    }
    if (!lost.ok()) return on_lost_(lost, said);
  }
}

// At the same moments in all nodes of a host: see Membership::SendHeartbeats.
std::chrono::nanoseconds FailureDetector::UntilTick() const {
  return kTick - std::chrono::nanoseconds(clock_->NowNs()) % kTick;
}

bool FailureDetector::Listened() {
  if (!answered_->exchange(false)) return false;  // it is still asked
  transport_->Defer([answered = answered_] { *answered = true; });
  return true;
}

void FailureDetector::WarnOfDeafness(int64_t deaf_ns) {
  deaf_ns_ += deaf_ns;
  if (deaf_ns_ < kToldDeafnessNs || deaf_ns > 0) return;  // told when it is over
  LOG(WARNING) << "node " << name_ << " did not run for "
               << Format("%.1f", static_cast<double>(deaf_ns_) / kNsPerSecond)
               << " s: the process was stopped, the machine suspended, or other programs took its processors; the "
                  "other nodes are not blamed for that time";
  deaf_ns_ = 0;
}

void FailureDetector::OnConnected(Rank peer) {
  MutexLock lock(&mutex_);
  if (peer < nodes_) membership_.OnConnected(peer);
}

bool FailureDetector::OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) {
  constexpr uint32_t kFirst = MemberType(MemberMessage::kHeartbeat);
  if (type < kFirst || type > MemberType(MemberMessage::kBye)) return false;
  MutexLock lock(&mutex_);
  const std::string_view payload(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  membership_.OnMessage(peer, static_cast<MemberMessage>(type - kFirst), payload);
  SignalIfStateChanged();
  return true;
}

void FailureDetector::OnClosed(Rank peer, const Status& status) {
  MutexLock lock(&mutex_);
  if (peer < nodes_) membership_.OnClosed(peer, status);
  SignalIfStateChanged();
}

void FailureDetector::OnDataFailure(Rank peer, const Status& cause) {
  MutexLock lock(&mutex_);
  membership_.OnDataFailure(peer, cause);
}

void FailureDetector::Fail(const Status& cause) {
  MutexLock lock(&mutex_);
  membership_.Fail(cause);
  SignalIfStateChanged();
}

Status FailureDetector::Leave(int timeout_ms) {
  MutexLock lock(&mutex_);
  membership_.SendBye();
  SignalIfStateChanged();
  const auto going_on = [this]() HP_REQUIRES(mutex_) {
    return membership_.state() == Membership::State::kRunning || membership_.state() == Membership::State::kEnding;
  };
  for (int waited = 0; going_on(); waited += 50) {
    if (waited >= timeout_ms) return DeadlineExceeded("timed out waiting for the other nodes to finish the job");
    changed_.WaitFor(&mutex_, kTick);
  }
  return membership_.state() == Membership::State::kDone ? OkStatus() : Unavailable("a node was lost");
}

void FailureDetector::SignalIfStateChanged() {
  if (std::exchange(signalled_, membership_.state()) != membership_.state()) changed_.SignalAll();
}

void FailureDetector::SendToAll(MemberMessage type, const std::string& payload) {
  for (Rank rank = 0; rank < nodes_; ++rank) {
    if (rank != self_) SendTo(rank, type, payload);
  }
}

void FailureDetector::SendHeartbeat(Rank peer) { SendTo(peer, MemberMessage::kHeartbeat, ""); }

int64_t FailureDetector::LastSentNs(Rank peer) { return transport_->LastSentNs(peer); }

void FailureDetector::SendTo(Rank peer, MemberMessage type, const std::string& payload) {
  // A peer that is not connected hears nothing; membership knows.
  const Status status = transport_->Send(peer, MemberType(type), std::as_bytes(std::span(payload)));
  if (!status.ok()) VLOG(1) << "to node " << peer << ": " << status;
}

void FailureDetector::ShutdownAll() {
  for (Rank rank = 0; rank < nodes_; ++rank) {
    if (rank != self_) transport_->Shutdown(rank);
  }
}

}  // namespace hp
