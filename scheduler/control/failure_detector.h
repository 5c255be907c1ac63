#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "scheduler/control/membership.h"
#include "scheduler/plan/routing_table.h"
#include "transport/transport.h"

#include <functional>
#include <string>

namespace hp {

/// Detects lost nodes: runs a node's Membership on a thread of its own from the first connection on, so that heartbeats
/// go out whatever else the node does, and reports when the node has to leave.
class FailureDetector : private MembershipOutput {
 public:
  /// Called once, on the detector's thread: a node is lost, leave with exit status 4. `said`: it reported it itself.
  using LostSink = std::function<void(const Status& status, bool said)>;

  FailureDetector(const RoutingTable& table, Rank self, Transport* transport, const Clock* clock, LostSink on_lost);
  ~FailureDetector() override;

  void Start();
  /// Ends the thread: on_lost is not called after it. Events of the transport are still accepted and ignored.
  void Stop();
  /// Events of the transport; clients (ranks beyond the table) are ignored. Progress thread.
  void OnConnected(Rank peer) HP_EXCLUDES(mutex_);
  /// @return whether `type` belongs to the membership protocol.
  bool OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) HP_EXCLUDES(mutex_);
  void OnClosed(Rank peer, const Status& status) HP_EXCLUDES(mutex_);
  /// A data endpoint or collective to `peer` failed; the peer is lost unless its connection explains it within 0.5 s.
  void OnDataFailure(Rank peer, const Status& cause) HP_EXCLUDES(mutex_);
  /// This node can't continue; tells the others. `on_lost` follows when they had time to hear it.
  void Fail(const std::string& cause) HP_EXCLUDES(mutex_);
  /// Says BYE and waits for that of all others. @return false: a node was lost instead, or `timeout_ms` passed.
  bool Leave(int timeout_ms) HP_EXCLUDES(mutex_);

 private:
  void Run();
  void SendToAll(MemberMessage type, const std::string& payload) override HP_REQUIRES(mutex_);
  void ShutdownAll() override HP_REQUIRES(mutex_);

  const int nodes_;
  const Rank self_;
  Transport* const transport_;
  const LostSink on_lost_;
  Mutex mutex_;  ///< held while it sends: lock order is detector, then transport
  CondVar changed_;
  Membership membership_ HP_GUARDED_BY(mutex_);
  bool stop_ HP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace hp
