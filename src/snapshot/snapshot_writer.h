#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "checkpoint/incarnation.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "proto/snapshot.pb.h"
#include "snapshot/gathered_model.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

namespace hp {

struct SnapshotContents;

/// Writes snapshots, one at a time, on a thread "snapshot": first under temporary names, then, when the verdict on the
/// snapshot's last update has come, under the final ones, so that no snapshot has numbers that stopped the job. A write
/// that fails is tried again every retry_ms until a newer snapshot waits, which makes this one worthless; training goes
/// on meanwhile. Memory: the model that it writes, and a copy of blobs whose slices are not whole rows. Owned by the
/// Snapshotter, on the first node.
class SnapshotWriter {
 public:
  struct Options {
    std::string prefix;             ///< Caffe's snapshot_prefix, folder included
    SnapshotManifest manifest;      ///< seed, hashes and nodes; the rest is filled in
    caffe::SolverParameter solver;  ///< for the learning rate's step in the .solverstate
    caffe::NetParameter train_net;  ///< the TRAIN phase, without blobs: what the .caffemodel says of the layers
    int retry_ms = 5000;            ///< between a failed write and the next attempt
    /// Of this run (manifest.run) that stay, besides `in_use`; older ones go when a newer one is complete. 0: all.
    int keep = 0;
    std::set<int64_t> in_use;  ///< iterations that stay while this start lives: what it was resumed from
    /// Another node writes a copy: a snapshot counts when OnCopied has said that it is complete.
    bool copied = false;
    /// The folder is that of the first node, which writes there: every snapshot counts as written.
    bool in_first_folder = false;
    /// This start of the job; null without `claim`: no other start can write these files.
    std::shared_ptr<const Incarnation> incarnation;
    /// Tried ahead of each snapshot until it gives the incarnation that was not to be had at the start: nothing is
    /// written without. Snapshot thread; may be null. @return kInternal: another run has these files, and this snapshot
    /// is given up; kFailedPrecondition: a later start of this one has them; else the snapshot is tried again.
    std::function<StatusOr<std::shared_ptr<const Incarnation>>()> claim;
    /// A later start of the job writes them now, and this one must end. Snapshot thread, under no lock; may be null
    /// without an incarnation.
    std::function<void(const Status&)> on_superseded;
    int64_t most_message_bytes = INT32_MAX - (int64_t{1} << 20);  ///< SnapshotContents::most_message_bytes
    /// Before each change of the folder, as SnapshotContents::before_step. For tests; may be null.
    std::function<void(const std::string& step)> before_step;
    /// What became of the snapshot of an iteration; ahead of on_written. Snapshot thread, under no lock; may be null.
    std::function<void(int64_t iteration, const Status&)> on_result;
    /// The model that Write was called with is on the disk or given up. Snapshot thread, under no lock.
    std::function<void(int64_t iteration)> on_written;
    /// Adds to the manifest of a snapshot what the job was ordered until then. Snapshot thread; null: nothing.
    std::function<void(int64_t iteration, SnapshotManifest*)> add_orders;
  };

  /// Starts the thread.
  explicit SnapshotWriter(Options options);
  /// Stops.
  ~SnapshotWriter();

  /// Begins to write `model`, which must be complete; on_written follows, and no other Write is allowed before (CHECK).
  /// Any thread; never blocks.
  void Write(std::shared_ptr<const GatheredModel> model) HP_EXCLUDES(mutex_);
  /// Whether a newer snapshot waits for this one: while it does, a write that fails is given up. Any thread.
  void SetNewerWaits(bool waits) HP_EXCLUDES(mutex_);
  /// From here on, a write that fails is given up. Any thread.
  void SetLastAttempt() HP_EXCLUDES(mutex_);
  /// The verdict of `clock` is go (or scale, or skip): snapshots up to iteration clock + 1 may get their final names.
  /// Any thread.
  void OnVerdict(int64_t clock) HP_EXCLUDES(mutex_);
  /// The other node has written the snapshot of an iteration, or given it up. Any thread.
  void OnCopied(int64_t iteration, const Status& status) HP_EXCLUDES(mutex_);
  /// Ends the thread; no on_written follows. A write that is under way is finished; a snapshot that waits for its
  /// verdict is removed. Blocks as long as the disk does. Not from a callback.
  void Stop() HP_EXCLUDES(mutex_);

  /// The result of the snapshot that was written or given up last; ok also before the first. Any thread.
  Status last() const HP_EXCLUDES(mutex_);

 private:
  void Run();
  Status WriteFiles(const GatheredModel& model) HP_EXCLUDES(mutex_);
  Status TryOnce(SnapshotContents* contents) HP_EXCLUDES(mutex_);
  /// Errors as Options::claim's.
  Status Claim();
  /// @return false: Stop was called first.
  bool WaitForVerdict(int64_t clock) HP_EXCLUDES(mutex_);
  /// @return kInternal: the copy was given up; kCancelled: Stop was called first.
  Status WaitForCopy(int64_t iteration) HP_EXCLUDES(mutex_);
  /// @return false: the snapshot is given up.
  bool WaitToTryAgain() HP_EXCLUDES(mutex_);

  const Options options_;
  std::shared_ptr<const Incarnation> incarnation_;  // snapshot thread
  mutable Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<const GatheredModel> to_write_ HP_GUARDED_BY(mutex_);
  int64_t verdict_ HP_GUARDED_BY(mutex_) = -1;              // latest clock with one
  std::map<int64_t, Status> copies_ HP_GUARDED_BY(mutex_);  // by iteration, until ours is done
  bool stop_ HP_GUARDED_BY(mutex_) = false, newer_waits_ HP_GUARDED_BY(mutex_) = false;
  bool last_attempt_ HP_GUARDED_BY(mutex_) = false;
  Status last_ HP_GUARDED_BY(mutex_);
  Thread thread_;
};

}  // namespace hp
