#pragma once

#include "base/mutex.h"
#include "checkpoint/snapshot.h"
#include "scheduler/plan/job_plan.h"
#include "solvers/param_store.h"
#include "tensor/buffer.h"
#include "transport/transport.h"

#include <cstddef>
#include <deque>
#include <map>
#include <set>

namespace hp {

/// How nodes that lack the snapshot which their job resumes from get their part of it, before training: a node grants a
/// place for one piece after the other (ResumePiecesOf) to a node that has the snapshot (Take), which cuts each out of
/// it and writes it there (Give). Memory: the taker's largest piece; on the giver, beside the snapshot, one piece for
/// each taker. Owned by the node.
class SnapshotTransfer {
 public:
  /// @param transport must outlive it, and have stopped when this is destroyed. @param self our own rank.
  SnapshotTransfer(Transport* transport, Rank self) : transport_(transport), self_(self) {}

  /// Blocks until `store` has all values and histories. Main thread, once.
  /// @param store of NodeModel::stored_params. @return the cause of Abort; kInternal: the device failed;
  /// kResourceExhausted: out of memory.
  Status Take(const JobPlan& job, Rank giver, ParamStore* store) HP_EXCLUDES(mutex_);
  /// Blocks until each of `takers` has all its pieces. Main thread, once.
  /// @param snapshot fitted to the net (FitSnapshot). @return as Take.
  Status Give(const JobPlan& job, const std::set<Rank>& takers, const LoadedSnapshot& snapshot) HP_EXCLUDES(mutex_);
  /// Ends Take and Give, also later ones, with `cause`, which must not be ok. Any thread.
  void Abort(const Status& cause) HP_EXCLUDES(mutex_);

  // The transport's events for tags of which IsResumeTag is true. Progress thread; OnGranted also the main thread.

  /// A taker granted the place of its next piece (ResumeRules).
  void OnGranted(Rank taker, const PlaceTag& tag, RemoteGrant grant) HP_EXCLUDES(mutex_);
  /// A piece is in its place; an error: the giver is gone, which the failure detector makes the end of the job.
  void OnGrantEnded(const Status& status) HP_EXCLUDES(mutex_);
  /// The piece of a taker was sent, or the taker is gone.
  void OnWriteEnded(Rank taker, const Status& status) HP_EXCLUDES(mutex_);

 private:
  struct Asked {
    Rank taker = 0;
    PlaceTag tag;
    RemoteGrant grant;
  };
  Status TakePiece(Rank giver, const PlaceTag& tag, std::span<float> place) HP_EXCLUDES(mutex_);
  Status GivePiece(const JobPlan& job, const Asked& asked, const LoadedSnapshot& snapshot);
  /// Blocks until a taker asks whose last piece is sent, or some pieces were sent. @return whether one asks.
  StatusOr<bool> WaitForTaker(Asked* asked, size_t* unsent) HP_EXCLUDES(mutex_);

  Transport* const transport_;
  const Rank self_;
  Buffer place_;                  // where the piece that is on its way to us lands
  std::map<Rank, Buffer> rooms_;  // pieces that are on their way to takers
  Mutex mutex_;
  CondVar changed_;
  std::deque<Asked> asked_ HP_GUARDED_BY(mutex_);
  std::set<Rank> sending_ HP_GUARDED_BY(mutex_);  // takers whose room is in use
  size_t sent_ HP_GUARDED_BY(mutex_) = 0;         // pieces, since WaitForTaker last looked
  bool arrived_ HP_GUARDED_BY(mutex_) = false;
  Status aborted_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
