#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "engine/snapshot/gathered_model.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "proto/snapshot.pb.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace hp {

struct SnapshotContents;

/// Writes snapshots, on a thread of its own: the files beside their places first, then, when the verdict of the
/// snapshot's iteration is there, into them. A write that fails is tried again until a newer snapshot waits, which
/// makes it worthless. Memory: the model that it writes, and the whole of one whose slices are not rows once more.
class SnapshotWriter {
 public:
  struct Options {
    std::string prefix;
    SnapshotManifest manifest;  ///< without the files
    caffe::SolverParameter solver;
    caffe::NetParameter train_net;
    int retry_ms = 5000;  ///< between a failed write and the next attempt
    /// Before each change of the folder, as SnapshotContents::before_step. For tests; may be null.
    std::function<void(const std::string& step)> before_step;
    /// The model that Write was called with is on the disk or given up. Snapshot thread.
    std::function<void()> on_written;
  };

  explicit SnapshotWriter(Options options);
  /// Stops.
  ~SnapshotWriter();

  /// Begins to write `model`; the one before must be written. Any thread, never blocks.
  void Write(std::shared_ptr<const GatheredModel> model) HP_EXCLUDES(mutex_);
  /// Whether a newer snapshot waits for this one: if so, no further attempt is made.
  void SetNewerWaits(bool waits) HP_EXCLUDES(mutex_);
  /// From now on each snapshot is attempted once.
  void SetLastAttempt() HP_EXCLUDES(mutex_);
  /// The verdict of `clock` has come. Any thread.
  void OnVerdict(int64_t clock) HP_EXCLUDES(mutex_);
  /// Ends the thread; no on_written follows. What is being written is finished or removed.
  void Stop() HP_EXCLUDES(mutex_);

  /// What kept the last snapshot from the disk; ok: nothing.
  Status last() const HP_EXCLUDES(mutex_);

 private:
  void Run();
  Status WriteFiles(const GatheredModel& model) HP_EXCLUDES(mutex_);
  Status TryOnce(const SnapshotContents& contents) HP_EXCLUDES(mutex_);
  bool WaitForVerdict(int64_t clock) HP_EXCLUDES(mutex_);
  /// @return false: it is no longer worth it.
  bool WaitToTryAgain() HP_EXCLUDES(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<const GatheredModel> to_write_ HP_GUARDED_BY(mutex_);
  int64_t verdict_ HP_GUARDED_BY(mutex_) = -1;
  bool stop_ HP_GUARDED_BY(mutex_) = false, newer_waits_ HP_GUARDED_BY(mutex_) = false;
  bool last_attempt_ HP_GUARDED_BY(mutex_) = false;
  Status last_ HP_GUARDED_BY(mutex_);
  Thread thread_;
};

}  // namespace hp
