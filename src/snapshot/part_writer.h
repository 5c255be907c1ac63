#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "hp/status.h"
#include "proto/wire.pb.h"
#include "snapshot/part_layout.h"
#include "solvers/param_store.h"
#include "tensor/buffer.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace hp {

/// An owner's part in snapshots that all nodes write into one folder: between two updates it copies the slices that it
/// owns (Begin), and training goes on while a thread "slices" writes them into a file of this node's own
/// (SnapshotPartPath), syncs it, and reports size and sum. A write that fails is tried again every retry_ms until a
/// newer snapshot waits; then it is reported as failed, which gives the whole snapshot up. Memory: at most kMaxCopies
/// times this node's own values and histories, once from the first snapshot on. Owned by the Snapshotter.
class PartWriter {
 public:
  static constexpr size_t kMaxCopies = 2;

  struct Options {
    Rank rank = 0;        ///< this node's
    std::string prefix;   ///< Caffe's snapshot_prefix, folder included
    int retry_ms = 5000;  ///< between a failed write and the next attempt
    /// Before each step, as SnapshotContents::before_step: "write NAME", "sync NAME". For tests; may be null.
    std::function<void(const std::string& step)> before_step;
    /// The file is on the disk or given up. Slices thread, under no lock.
    std::function<void(const SnapshotPartWritten&)> on_written;
    /// HasRoom may have turned true. Slices thread, under no lock.
    std::function<void()> on_room;
  };

  /// Starts the thread. Both must outlive it.
  PartWriter(const std::vector<WholeParam>& params, ParamStore* store, Options options);
  /// Stops: a write that is under way is finished, others are dropped.
  ~PartWriter();

  /// Whether Begin may be called. Once true it stays so until Begin. Any thread; quick.
  bool HasRoom() const HP_EXCLUDES(mutex_);
  /// Copies this node's slices in front of `clock`, values after `version` updates. Waits for this node's own device
  /// and nothing else. Executor thread; HasRoom must be true (CHECK).
  /// @param start number of this start of the job, for the file's name.
  /// @return kInternal: the device failed; kResourceExhausted: out of memory.
  Status Begin(int64_t clock, int64_t version, int64_t start) HP_EXCLUDES(mutex_);
  /// From here on, a write that fails is not tried again. Any thread.
  void SetLastAttempt() HP_EXCLUDES(mutex_);
  /// Blocks until every part is written or given up, and reported. Main thread.
  void WaitUntilDone() HP_EXCLUDES(mutex_);

 private:
  struct Part {
    int64_t clock = 0, start = 0;
    Buffer slices;
  };
  void Run();
  SnapshotPartWritten WriteUntilDone(const Part& part) HP_EXCLUDES(mutex_);
  Status TryOnce(const Part& part, SnapshotPartWritten* written) const;
  bool WaitToTryAgain() HP_EXCLUDES(mutex_);

  const std::vector<WholeParam>& params_;
  ParamStore* const store_;
  const Options options_;
  const std::vector<PartSlice> layout_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Part> parts_ HP_GUARDED_BY(mutex_);  // the first one is being written
  Buffer spare_ HP_GUARDED_BY(mutex_);            // of the last part: new memory would cost as much as the copy
  bool stop_ HP_GUARDED_BY(mutex_) = false, last_attempt_ HP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace hp
