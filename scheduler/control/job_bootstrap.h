#pragma once

#include "base/mutex.h"
#include "scheduler/control/handshake.h"
#include "scheduler/plan/routing_table.h"

#include <set>

namespace hp {

/// Waits until all nodes of a job are connected, or the job can't start. It can't if the handshake rejects a peer or a
/// peer rejects us (another net, seed, snapshot or data set), or if a node fails while others still connect. Any
/// thread, unless said otherwise.
///
/// When the job can't start, the first node of the table, to which all others connect, stays until every one of them
/// was told why or did not appear in time: a node that came later would wait in vain for nodes that have left. The
/// other nodes stay until they reached the first.
class JobBootstrap {
 public:
  /// @param table must outlive this.
  JobBootstrap(const RoutingTable& table, const JobFacts& facts);

  /// The policy to start the transport with; lives as long as this.
  JobHandshake* handshake() { return &handshake_; }

  /// Main thread, once: blocks until every peer is connected and its route is settled, or the job can't start.
  /// @return ok; why the job can't start (kFailedPrecondition; kUnavailable: a node reported its failure), after the
  /// other nodes were told as above; or the status of Abort.
  Status Wait() HP_EXCLUDES(mutex_);
  /// Ends Wait at once: this node leaves, whether or not others have been told. The first status counts.
  void Abort(const Status& status) HP_EXCLUDES(mutex_);

  // --- Events of the transport. Nodes of the table only, no clients.
  /// The peer is connected: messages can be sent to it.
  void OnConnected(Rank peer) HP_EXCLUDES(mutex_);
  /// It is decided how tensors reach the peer; copies between GPUs are probed first. After OnConnected, or with it.
  void OnRouteSettled(Rank peer) HP_EXCLUDES(mutex_);
  /// The peer will not be connected. @return whether that is news: false if it is known that the job can't start.
  bool OnConnectFailed(Rank peer) HP_EXCLUDES(mutex_);

  /// The failure detector has lost a node. @param said whether that node reported its failure itself.
  /// @return true: this happened during Wait and is the reason why the job can't start; Wait tells the nodes that are
  /// still to come and then returns, so the caller must not leave yet.
  bool OnLost(const Status& status, bool said) HP_EXCLUDES(mutex_);
  /// Why the job can't start; ok: no reason is known.
  Status rejection() const HP_EXCLUDES(mutex_);

 private:
  void OnRefused(Rank peer, const Status& refused_us) HP_EXCLUDES(mutex_);
  bool AllInformed() const HP_REQUIRES(mutex_);
  void LogUnsettledRoutes() const HP_REQUIRES(mutex_);
  void Reject(const Status& status) HP_REQUIRES(mutex_);

  const RoutingTable& table_;
  const Rank self_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::set<Rank> connected_ HP_GUARDED_BY(mutex_), settled_ HP_GUARDED_BY(mutex_);
  std::set<Rank> refused_ HP_GUARDED_BY(mutex_);  // was refused by us, refused us, or did not appear in time
  bool waiting_ HP_GUARDED_BY(mutex_) = true;     // until the end of Wait
  Status rejection_ HP_GUARDED_BY(mutex_), aborted_ HP_GUARDED_BY(mutex_);
  JobHandshake handshake_;
};

}  // namespace hp
