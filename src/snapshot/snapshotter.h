#pragma once

#include "base/mutex.h"
#include "proto/wire.pb.h"
#include "scheduler/control/slice_tag.h"
#include "snapshot/part_writer.h"
#include "snapshot/slice_gatherer.h"
#include "snapshot/slice_sender.h"
#include "snapshot/snapshot_completer.h"
#include "snapshot/snapshot_writer.h"
#include "transport/transport.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace hp {

/// One node's part of snapshots and pulls, which all nodes begin at the same boundaries between two updates. At a
/// boundary a node copies the slices that it owns (Begin) and training goes on, while slices travel to the first node
/// and files are written: no task waits for a peer, a disk or a client. A boundary that needs a copy is ready when
/// there is room for one (HasRoom), and on_room says when that may have changed; so memory is bounded however slow a
/// peer or a disk is: SliceSender, SliceGatherer and SnapshotWriter say by what. How it works: the head of
/// snapshotter.cc. One per node, owned by it.
class Snapshotter {
 public:
  struct Options {
    Rank rank = 0;                    ///< this node's
    std::vector<Rank> writers = {0};  ///< RoutingTable::snapshot_writers
    /// Read on writers; its on_written is set here. `prefix`, `before_step` and `retry_ms` are read on all nodes.
    SnapshotWriter::Options files;
    /// Tells the first node what became of this node's part of a snapshot that all nodes write. Called on other nodes
    /// than the first; slices thread, under no lock.
    std::function<void(const SnapshotPartWritten&)> send_part;
    /// SliceGatherer::Options::on_pulled; called on the first node only.
    std::function<void(std::shared_ptr<const GatheredModel>)> on_pulled;
    /// A snapshot is on the disk or given up, so long (ns) after its Begin. Snapshot thread, under no lock; may be
    /// null.
    std::function<void(int64_t took_ns)> on_written;
    /// HasRoom may have turned true. Executor, progress or snapshot thread, under no lock; must not block.
    std::function<void()> on_room;
  };

  /// `params` (NodeModel::whole_params), `store` and `transport` must outlive it.
  Snapshotter(const std::vector<WholeParam>& params, ParamStore* store, Transport* transport, Options options);
  /// Stops the writer. The transport must have stopped: until then peers write into its memory.
  ~Snapshotter();

  /// Whether Begin may be called, for a snapshot (`files`) or a pull alone. Once true it stays so until Begin. Any
  /// thread, also under the pipeline's lock; quick. @param start as Begin's.
  bool HasRoom(bool files, int64_t start = 0) const;
  /// Copies this node's slices in front of `clock`; all nodes call it for the same clocks with the same `version`,
  /// `files` and `pull`. Waits for this node's own device and nothing else. Executor thread;
  /// HasRoom(files) must be true (CHECK).
  /// @param version updates that the values have seen: `clock`, or fewer for a pull with staleness.
  /// @param files,pull what the copy is for: one or both.
  /// @param loss_scaling for the snapshot's manifest; read on nodes that write one.
  /// @param start if not 0, all nodes have the first node's folder, and each writes its own part of the snapshot under
  /// this number of the job's start (Verdict.owner_files); alike on all nodes.
  /// @return kInternal: the device failed.
  Status Begin(int64_t clock, int64_t version, bool files, bool pull,
               const std::optional<LossScalingState>& loss_scaling, int64_t start = 0);

  // The transport's events for tags of which IsSliceTag is true, and only those. Progress thread.

  /// On nodes whose slices others gather: one granted the place of a slice.
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant);
  /// On writers: a slice has arrived, or its owner is gone.
  void OnGrantEnded(const Status& status);
  /// On nodes whose slices others gather: a slice has been sent.
  void OnWriteEnded(const PlaceTag& tag);

  /// The verdict of `clock` does not stop the job for its numbers: SnapshotWriter::OnVerdict. Any thread.
  void OnVerdict(int64_t clock);

  /// On the first node: SnapshotWriter::OnCopied. Any thread.
  void OnCopied(int64_t iteration, const Status& status);

  /// On the first node: another one has written its part of a snapshot, or given it up. Any thread.
  void OnPart(Rank owner, const SnapshotPartWritten& written);
  /// SnapshotCompleter::early_reports; 0 on other nodes than the first.
  size_t early_reports() const { return completer_ ? completer_->early_reports() : 0; }
  /// A node is lost: ends Finish, which may wait for its part. Any thread.
  void Abort(const Status& cause);

  /// Blocks until all that was begun is sent and, on writers, on the disk or given up; a write that fails is not
  /// tried again. Main thread, when training is done.
  /// @return what kept the last snapshot from the disk, an error of OnGrantEnded among that; ok on other nodes.
  Status Finish();

 private:
  void MakePartWriter(const std::vector<WholeParam>& params, ParamStore* store, const Options& options);
  void OnWritten(int64_t iteration) HP_EXCLUDES(mutex_);

  const std::function<void()> on_room_;
  const std::function<void(int64_t)> on_written_;
  const bool gathers_pulls_;
  std::atomic<bool> in_parts_{false};  // the last snapshot that was begun
  Mutex mutex_;
  std::map<int64_t, int64_t> begun_ns_ HP_GUARDED_BY(mutex_);  // by iteration, where on_written_ wants to know
  // Those who write have a writer and a gatherer; those whose slices others gather a sender.
  std::unique_ptr<SnapshotWriter> writer_;
  std::unique_ptr<SliceGatherer> gatherer_;
  std::unique_ptr<SliceSender> sender_;
  // For snapshots that all nodes write: the first node has a completer.
  std::unique_ptr<SnapshotCompleter> completer_;
  std::unique_ptr<PartWriter> part_writer_;
};

}  // namespace hp
