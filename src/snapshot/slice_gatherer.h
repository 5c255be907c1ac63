#pragma once

#include "base/mutex.h"
#include "snapshot/gathered_model.h"
#include "snapshot/snapshot_writer.h"
#include "solvers/param_store.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

namespace hp {

/// The part of a node that writes snapshots, of the first one also in pulls. Between two updates it copies the slices
/// that it owns (Begin), and training goes on; then it grants the other owners places for theirs, one version (the
/// parameters at the start of a clock) after the other, and hands each complete model on, to the writer, the pulls or
/// both. What begins while another version is being gathered waits here. A snapshot's turn comes when the one before it
/// is on the disk or given up; a pull does not wait for the disk, and goes ahead of snapshots that do. Memory: at most
/// one model being gathered, kMaxWaiting waiting, of which only this node's slices are filled, and one being written
/// (SnapshotWriter). Owned by the Snapshotter.
class SliceGatherer {
 public:
  static constexpr size_t kMaxWaiting = 1;
  /// Both are called on the executor, progress or snapshot thread, under no lock; must not block.
  struct Options {
    /// The model was gathered for a pull.
    std::function<void(std::shared_ptr<const GatheredModel>)> on_pulled;
    /// HasRoom may have turned true.
    std::function<void()> on_room;
  };

  /// All must outlive it. @param self the rank of this node, whose `store` and `transport` they are.
  SliceGatherer(Rank self, const std::vector<WholeParam>& params, ParamStore* store, Transport* transport,
                SnapshotWriter* writer, Options options);

  /// Whether Begin may be called, for a snapshot (`files`) or a pull alone. Once true it stays so until Begin. Any
  /// thread; quick.
  bool HasRoom(bool files) const HP_EXCLUDES(mutex_);
  /// Copies this node's slices in front of `clock`, values after `version` updates, and begins to gather the others' if
  /// nothing else is being gathered. Waits for this node's own device and nothing else. Executor thread; HasRoom(files)
  /// must be true (CHECK).
  /// @param files,pull whom the model is for; one or both.
  /// @return kInternal: the device failed.
  Status Begin(int64_t clock, int64_t version, bool files, bool pull,
               const std::optional<LossScalingState>& loss_scaling) HP_EXCLUDES(mutex_);

  /// A grant of a slice (IsSliceTag) has ended: ok, the slice is in its place; else its owner is gone, and what is
  /// being gathered will never be complete. Progress thread.
  void OnGrantEnded(const Status& status) HP_EXCLUDES(mutex_);
  /// The writer has written its model or given it up. Snapshot thread.
  void OnWritten() HP_EXCLUDES(mutex_);

  /// Blocks until everything begun has been handed on, and the writer is done with it. Main thread.
  /// @return the first error of OnGrantEnded, as soon as there is one.
  Status WaitUntilDone() HP_EXCLUDES(mutex_);

 private:
  struct Version {
    std::shared_ptr<GatheredModel> model;
    bool files = false, pull = false;
  };

  /// After each event: hands on the version that is complete, begins to gather the next one, calls on_room.
  void Advance() HP_EXCLUDES(mutex_);
  /// @return whether a version's turn came.
  bool StartNext() HP_REQUIRES(mutex_);
  void GrantPlaces() HP_REQUIRES(mutex_);
  /// A complete version, to be handed on outside the lock.
  std::optional<Version> TakeComplete() HP_REQUIRES(mutex_);

  const Rank self_;
  const std::vector<WholeParam>& params_;
  ParamStore* const store_;
  Transport* const transport_;    // posted to under mutex_: lock order is gatherer, then transport
  SnapshotWriter* const writer_;  // called under mutex_: lock order is gatherer, then writer
  const Options options_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Version> waiting_ HP_GUARDED_BY(mutex_);
  std::optional<Version> gathering_ HP_GUARDED_BY(mutex_);
  size_t missing_ HP_GUARDED_BY(mutex_) = 0;    // slices of gathering_ that have not arrived
  bool writing_ HP_GUARDED_BY(mutex_) = false;  // the writer has a model
  Status lost_ HP_GUARDED_BY(mutex_);           // the owner of a slice is gone
};

}  // namespace hp
