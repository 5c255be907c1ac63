#pragma once

#include "base/mutex.h"
#include "scheduler/control/handshake.h"
#include "scheduler/plan/routing_table.h"

#include <set>

namespace hp {

/// Brings the nodes of a job together: which peers are connected, and whether the job can start at all. It cannot if
/// the handshake rejects a peer or a peer rejects us (another net, table, seed or snapshot). Any thread.
///
/// The first node of the table, to which all others connect, stays until it has told every one of them why the job
/// can't start: a node that came later would wait in vain for nodes that have left. The others only have to reach the
/// first.
class JobBootstrap {
 public:
  JobBootstrap(const RoutingTable& table, const JobFacts& facts);

  /// Decides who is let in and keeps what each peer sent in its hello.
  JobHandshake* handshake() { return &handshake_; }

  /// Main thread: blocks until every peer is connected and its route is settled. @return ok, or why the job can't
  /// start; then the first node returns only after all peers have been told.
  Status Wait() HP_EXCLUDES(mutex_);
  /// Ends Wait with `status`: this node leaves.
  void Abort(const Status& status) HP_EXCLUDES(mutex_);

  /// The peer is connected: messages can be sent to it.
  void OnConnected(Rank peer) HP_EXCLUDES(mutex_);
  /// How tensors reach the peer is decided (GPU copies may need a probe first), after OnConnected.
  void OnRouteSettled(Rank peer) HP_EXCLUDES(mutex_);
  /// @return whether it is the first reason: false if the job was rejected before.
  bool OnConnectFailed(Rank peer) HP_EXCLUDES(mutex_);
  /// A node is lost. @param said it reported its failure itself. @return true if it did so during Wait, which now tells
  /// the other nodes; the caller need not.
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
  std::set<Rank> refused_ HP_GUARDED_BY(mutex_);  // refused by us or refusing us, or given up
  bool waiting_ HP_GUARDED_BY(mutex_) = true;     // until the end of Wait
  Status rejection_ HP_GUARDED_BY(mutex_), aborted_ HP_GUARDED_BY(mutex_);
  JobHandshake handshake_;
};

}  // namespace hp
