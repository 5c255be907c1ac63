#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "scheduler/control/membership.h"
#include "scheduler/plan/routing_table.h"
#include "transport/transport.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace hp {

/// Detects lost nodes: runs a node's Membership on a thread of its own, "failures", so that heartbeats go out whatever
/// else the node does, and reports when the node has to leave. A peer counts as lost when its connection ends without a
/// BYE, after 2 s of silence, or when a data transfer to it fails (see Membership, which makes all survivors name the
/// same node). Silence counts only while the transport's progress thread ran. Any thread, unless said otherwise.
///
/// Life: Start -> events -> Leave at the end of the job, or on_lost -> Stop.
class FailureDetector : private MembershipOutput {
 public:
  /// Reports that the job has lost a node, and that all who can hear it have had time to: this node must leave.
  /// @param status which node is lost, why, and who noticed; kUnavailable, or the code that a node gave which reported
  /// its own failure. The lost node may be this one (Fail).
  /// @param said whether the lost node reported its failure itself.
  using LostSink = std::function<void(const Status& status, bool said)>;

  /// @param transport must outlive this. @param clock what the transport's LastHeardNs counts by; must outlive this.
  /// @param on_lost called at most once, on the detector's thread and under no lock; must not call Stop.
  FailureDetector(const RoutingTable& table, Rank self, Transport* transport, const Clock* clock, LostSink on_lost);
  /// Calls Stop.
  ~FailureDetector() override;

  /// Starts the thread. Once; the transport must be started.
  void Start();
  /// Ends and joins the thread: on_lost is not called after it. Events may still be reported. May be called
  /// more than once.
  void Stop();

  // --- Events. Those of ranks beyond the table (clients, which take no part in membership) are ignored.
  void OnConnected(Rank peer) HP_EXCLUDES(mutex_);
  /// @return whether `type` belongs to the membership protocol, so that nobody else is to handle the message.
  bool OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) HP_EXCLUDES(mutex_);
  void OnClosed(Rank peer, const Status& status) HP_EXCLUDES(mutex_);
  /// A transfer or collective with `peer`, a node of the table, failed. The peer is lost, unless within 0.5 s something
  /// else explains the failure. `peer` = self: it is not known which replica's fault it is.
  void OnDataFailure(Rank peer, const Status& cause) HP_EXCLUDES(mutex_);

  // --- What the node does
  /// This node can't continue: tells the others, who name it with `cause`. on_lost follows when they had time to hear
  /// it. No effect if a loss is decided already, or the job has ended.
  void Fail(const Status& cause) HP_EXCLUDES(mutex_);
  /// Ends the job in order: sends BYE and blocks until all nodes have sent theirs and this node may leave (kDone). Main
  /// thread, after the last update; needs the thread.
  /// @return kUnavailable: a node was lost instead, and on_lost says which; kDeadlineExceeded: `timeout_ms` passed.
  Status Leave(int timeout_ms) HP_EXCLUDES(mutex_);

 private:
  void Run();
  /// Whether the progress thread ran since the last call, which asked it.
  bool Listened();
  std::chrono::nanoseconds UntilTick() const;
  void WarnOfDeafness(int64_t deaf_ns) HP_REQUIRES(mutex_);
  /// Wakes the thread and who waits in Leave, if there is news for them.
  void SignalIfStateChanged() HP_REQUIRES(mutex_);
  void SendToAll(MemberMessage type, const std::string& payload) override HP_REQUIRES(mutex_);
  void SendHeartbeat(Rank peer) override HP_REQUIRES(mutex_);
  int64_t LastSentNs(Rank peer) override HP_REQUIRES(mutex_);
  void SendTo(Rank peer, MemberMessage type, const std::string& payload) HP_REQUIRES(mutex_);
  void ShutdownAll() override HP_REQUIRES(mutex_);

  const int nodes_;
  const Rank self_;
  Transport* const transport_;
  const Clock* const clock_;
  const LostSink on_lost_;
  const std::string name_;  // our own
  const std::shared_ptr<std::atomic<bool>> answered_ = std::make_shared<std::atomic<bool>>(true);
  Mutex mutex_;  // held while the transport is posted to. Lock order: detector, then transport
  CondVar changed_;
  Membership membership_ HP_GUARDED_BY(mutex_);
  bool stop_ HP_GUARDED_BY(mutex_) = false;
  Membership::State signalled_ HP_GUARDED_BY(mutex_) = Membership::State::kRunning;
  int64_t deaf_ns_ HP_GUARDED_BY(mutex_) = 0;  // not told yet
  Thread thread_;
};

}  // namespace hp
