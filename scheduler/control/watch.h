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

/// Runs a node's membership on a thread of its own from the first connection on, so that heartbeats go out whatever
/// else the node does, and tells the node when it has to leave.
class Watch : private MembershipOutput {
 public:
  /// Called once, on the watch's thread: a node is lost, leave with exit status 4. `said`: it said so itself.
  using LostSink = std::function<void(const Status& status, bool said)>;

  Watch(const RoutingTable& table, Rank self, Transport* transport, const Clock* clock, LostSink on_lost);
  ~Watch() override;

  void Start();
  /// Ends its thread: on_lost comes no more. What the transport reports is still taken, to no effect.
  void Stop();
  void OnConnected(Rank peer) HP_EXCLUDES(mutex_);
  /// @return whether `type` was the membership's.
  bool OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) HP_EXCLUDES(mutex_);
  void OnClosed(Rank peer, const Status& status) HP_EXCLUDES(mutex_);
  void OnDataFailure(Rank peer, const Status& cause) HP_EXCLUDES(mutex_);
  /// This node can't go on; tells the others. `on_lost` follows when they had time to hear it.
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
  Mutex mutex_;
  CondVar changed_;
  Membership membership_ HP_GUARDED_BY(mutex_);
  bool stop_ HP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace hp
