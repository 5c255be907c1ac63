#pragma once

#include "base/mutex.h"
#include "engine/snapshot/gathered_model.h"
#include "engine/snapshot/snapshot_writer.h"
#include "solvers/param_store.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

namespace hp {

/// The first node's part of snapshots and pulls: between two updates it copies the slices that it owns (Begin), and
/// training goes on; then it grants places for those of the others, one version after the other, and hands each whole
/// model on. What begins while another is under way waits here. A snapshot's turn comes when the one before it is on
/// the disk or given up; a pull does not wait for the disk, and goes ahead of snapshots that do.
/// Memory: at most one model being gathered, kMaxWaiting waiting (their own slices are there, the rest is reserved),
/// and one being written (SnapshotWriter).
class SliceGatherer {
 public:
  static constexpr size_t kMaxWaiting = 1;
  struct Options {
    /// The model was gathered for a pull. Executor, progress or snapshot thread; must not block.
    std::function<void(std::shared_ptr<const GatheredModel>)> on_pulled;
    /// HasRoom may have turned true. As above.
    std::function<void()> on_room;
  };

  /// All outlive it. `store` and `transport` are the first node's.
  SliceGatherer(const std::vector<WholeParam>& params, ParamStore* store, Transport* transport, SnapshotWriter* writer,
                Options options);

  /// Whether Begin may be called, for a snapshot (`files`) or a pull alone. Once true it stays so until Begin. Any
  /// thread; quick.
  bool HasRoom(bool files) const HP_EXCLUDES(mutex_);
  /// Copies this node's part of version `clock`. Waits for this node's own device and nothing else. Executor; HasRoom.
  /// @return kInternal: the device failed.
  Status Begin(int64_t clock, bool files, bool pull, const std::optional<LossScalingState>& loss_scaling)
      HP_EXCLUDES(mutex_);

  /// A place of ours was written to. Progress thread.
  void OnGrantEnded(const Status& status) HP_EXCLUDES(mutex_);
  /// The writer is free again. Snapshot thread.
  void OnWritten() HP_EXCLUDES(mutex_);

  /// Waits until everything begun has been handed on, and the writer is done with it. Main thread.
  void WaitUntilDone() HP_EXCLUDES(mutex_);

 private:
  struct Version {
    std::shared_ptr<GatheredModel> model;
    bool files = false, pull = false;
  };

  /// Does whatever is possible now: begins to gather the next version, hands on one that is complete.
  void Advance() HP_EXCLUDES(mutex_);
  bool StartNext() HP_REQUIRES(mutex_);
  void GrantPlaces() HP_REQUIRES(mutex_);
  /// A complete version, to be handed on outside the lock.
  std::optional<Version> TakeComplete() HP_REQUIRES(mutex_);

  const std::vector<WholeParam>& params_;
  ParamStore* const store_;
  Transport* const transport_;    // posted to under mutex_
  SnapshotWriter* const writer_;  // told under mutex_: lock order is gatherer, then writer
  const Options options_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Version> waiting_ HP_GUARDED_BY(mutex_);
  std::optional<Version> gathering_ HP_GUARDED_BY(mutex_);
  size_t missing_ HP_GUARDED_BY(mutex_) = 0;    // slices of gathering_
  bool writing_ HP_GUARDED_BY(mutex_) = false;  // the writer has one
};

}  // namespace hp
