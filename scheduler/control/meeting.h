#pragma once

#include "base/mutex.h"
#include "scheduler/control/handshake.h"
#include "scheduler/plan/routing_table.h"

#include <set>

namespace hp {

/// How the nodes of a job find together: who is connected, and whether the job can come together at all. Any thread.
class Meeting {
 public:
  Meeting(const RoutingTable& table, const JobFacts& facts);

  /// Lets peers in, and has what they said.
  JobHandshake* handshake() { return &handshake_; }

  /// Waits until the ways to all nodes are settled. @return why they will not be; on the first node, when all that came
  /// have been told so.
  Status Wait() HP_EXCLUDES(mutex_);
  /// Ends Wait with `status`: this node goes.
  void Abort(const Status& status) HP_EXCLUDES(mutex_);

  /// A peer is connected, and can be told things; and how tensors go to it is settled, which may take longer.
  void OnMet(Rank peer) HP_EXCLUDES(mutex_);
  void OnSettled(Rank peer) HP_EXCLUDES(mutex_);
  /// @return whether that is news: false, if the job was not to be anyway.
  bool OnConnectFailed(Rank peer) HP_EXCLUDES(mutex_);
  /// A node is lost. @return whether Wait still tells others that the job is not to be: then it was lost with a word,
  /// in the middle of the meeting.
  bool OnLost(const Status& status, bool said) HP_EXCLUDES(mutex_);
  /// Why the job can't come together; ok: nothing is known against it.
  Status apart() const HP_EXCLUDES(mutex_);

 private:
  void OnParted(Rank peer, const Status& refused_us) HP_EXCLUDES(mutex_);
  bool AllTold() const HP_REQUIRES(mutex_);
  void LogUnsettled() const HP_REQUIRES(mutex_);
  void SetApart(const Status& status) HP_REQUIRES(mutex_);

  const RoutingTable& table_;
  const Rank self_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::set<Rank> met_ HP_GUARDED_BY(mutex_), settled_ HP_GUARDED_BY(mutex_);
  std::set<Rank> parted_ HP_GUARDED_BY(mutex_);  // refused by us or refusing us, or given up
  bool waiting_ HP_GUARDED_BY(mutex_) = true;    // until the end of Wait
  Status apart_ HP_GUARDED_BY(mutex_), aborted_ HP_GUARDED_BY(mutex_);
  JobHandshake handshake_;
};

}  // namespace hp
