#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "hp/status.h"
#include "proto/snapshot.pb.h"
#include "proto/wire.pb.h"
#include "scheduler/plan/table_check.h"
#include "snapshot/part_layout.h"
#include "snapshot/snapshot_writer.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hp {

/// The first node's part in snapshots that all nodes write into one folder (PartWriter): when every owner has reported
/// its file and the verdict on the snapshot's last update has come, it writes the manifest, which makes them a
/// snapshot. One that an owner has given up is abandoned, and the files of the others are removed. Behind that it
/// merges the parts into Caffe's files, also those that an earlier start of the run has left unmerged; what is to be
/// completed goes first. All on a thread "snapshot parts". A disk that fails while merging costs nothing but Caffe's
/// files: the parts stay, and are merged after the next snapshot. Memory: 1 MiB. Owned by the Snapshotter.
class SnapshotCompleter {
 public:
  /// Snapshots that have begun and are neither merged nor given up.
  static constexpr int kMaxBegun = 3;
  /// Reports of one owner that are ahead of Begin. No node is more than staleness + 2 iterations ahead of another one.
  static constexpr size_t kMaxEarly = kMaxStaleness + 2;

  /// Starts the thread. @param files options as the writer's; on_result, copied, in_first_folder and retry_ms are not
  /// read; on_written is called when a snapshot is merged or given up. @param params must outlive it.
  /// @param on_room HasRoom may have turned true; snapshot parts thread, under no lock.
  SnapshotCompleter(const std::vector<WholeParam>& params, SnapshotWriter::Options files,
                    std::function<void()> on_room);
  /// Stops. A merge that is under way is finished; snapshots that wait for owners or their verdict are left incomplete.
  ~SnapshotCompleter();

  /// Whether Begin may be called: a disk that is slower than snapshots are due holds training up. Once true it stays so
  /// until Begin. Any thread; quick.
  bool HasRoom() const HP_EXCLUDES(mutex_);
  /// All nodes begin a snapshot. Any thread, in the order of iterations; never blocks.
  void Begin(int64_t iteration, const std::optional<LossScalingState>& loss_scaling) HP_EXCLUDES(mutex_);
  /// An owner has written its part, or given it up; perhaps ahead of Begin. Passed over: others than owners, a second
  /// report, snapshots that are done, and of more than kMaxEarly reports ahead those that are farthest. So an owner
  /// that lies holds up its own snapshots and costs little memory. Any thread.
  void OnPart(Rank owner, const SnapshotPartWritten& written) HP_EXCLUDES(mutex_);
  /// SnapshotWriter::OnVerdict. Any thread.
  void OnVerdict(int64_t clock) HP_EXCLUDES(mutex_);
  /// Reports that are ahead of Begin, of all owners. Any thread.
  size_t early_reports() const HP_EXCLUDES(mutex_);
  /// Ends WaitUntilDone with `cause`: an owner is gone. Any thread.
  void Abort(const Status& cause) HP_EXCLUDES(mutex_);
  /// Blocks until all that was begun is complete and merged, or given up. Main thread.
  /// @return what kept the last one from being complete, or the cause of Abort.
  Status WaitUntilDone() HP_EXCLUDES(mutex_);

 private:
  struct Pending {
    std::optional<LossScalingState> loss_scaling;
    std::map<Rank, SnapshotPartWritten> parts;
  };
  void Run();
  void AddEarly(Rank owner, const SnapshotPartWritten& written) HP_REQUIRES(mutex_);
  /// Takes the oldest one that nothing is missing of, forgetting it. Nothing: none.
  std::optional<std::pair<int64_t, Pending>> TakeReady() HP_REQUIRES(mutex_);
  Status Complete(int64_t iteration, const Pending& pending);
  void GiveUp(int64_t iteration, const Status& status);
  /// Merges the oldest that waits for it.
  void MergeOne() HP_EXCLUDES(mutex_);
  /// Snapshots of this run that are there in parts.
  std::set<int64_t> FindUnmerged() const;

  const std::vector<WholeParam>& params_;
  const SnapshotWriter::Options files_;
  const std::function<void()> on_room_;
  const std::vector<Rank> owners_;
  const std::string ending_;  // SnapshotEnding of Caffe's files
  bool looked_ = false;       // for what an earlier start has left; of the thread alone

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<int64_t, Pending> pending_ HP_GUARDED_BY(mutex_);                            // begun
  std::map<Rank, std::map<int64_t, SnapshotPartWritten>> early_ HP_GUARDED_BY(mutex_);  // by owner and iteration
  int64_t latest_ HP_GUARDED_BY(mutex_) = -1;                                           // that was begun
  std::set<int64_t> unmerged_ HP_GUARDED_BY(mutex_), to_report_ HP_GUARDED_BY(mutex_);
  std::set<int64_t> failed_ HP_GUARDED_BY(mutex_);  // merges, to be tried again
  int begun_ HP_GUARDED_BY(mutex_) = 0;
  int64_t verdict_ HP_GUARDED_BY(mutex_) = -1;
  bool stop_ HP_GUARDED_BY(mutex_) = false, busy_ HP_GUARDED_BY(mutex_) = false;
  Status last_ HP_GUARDED_BY(mutex_), aborted_ HP_GUARDED_BY(mutex_);
  Thread thread_;
};

}  // namespace hp
