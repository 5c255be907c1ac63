#pragma once

#include "engine/snapshot/slice_gatherer.h"
#include "engine/snapshot/slice_sender.h"
#include "engine/snapshot/slice_tag.h"
#include "engine/snapshot/snapshot_writer.h"
#include "transport/transport.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace hp {

/// One node's part of snapshots and pulls, which all nodes begin at the same boundaries between two updates. Nobody
/// waits in them: at a boundary a node copies what it owns (Begin) and training goes on; slices travel, and files are
/// written, while it does. A boundary that needs a copy is ready when there is room for one (HasRoom), and on_room says
/// when that may have changed; so memory is bounded however slow a peer or a disk is: SliceSender, SliceGatherer and
/// SnapshotWriter say by what. How it works: the head of snapshotter.cc.
class Snapshotter {
 public:
  struct Options {
    Rank rank = 0;
    SnapshotWriter::Options files;  ///< on the first node; on_written is the snapshotter's own
    /// As SliceGatherer::Options; on the first node.
    std::function<void(std::shared_ptr<const GatheredModel>)> on_pulled;
    /// HasRoom may have turned true. Executor, progress or snapshot thread, under no lock; must not block.
    std::function<void()> on_room;
  };

  /// `params`, `store` and `transport` outlive it.
  Snapshotter(const std::vector<WholeParam>& params, ParamStore* store, Transport* transport, Options options);
  /// The transport must have stopped: until then others write into places of ours.
  ~Snapshotter();

  /// Whether Begin may be called, for a snapshot (`files`) or a pull alone. Once true it stays so until Begin. Any
  /// thread; quick.
  bool HasRoom(bool files) const;
  /// Copies this node's part of version `clock`; alike on all nodes. Waits for this node's own device and nothing else.
  /// Executor, where HasRoom(files).
  /// @param loss_scaling what the first node's snapshot is to say of it.
  /// @return kInternal: the device failed.
  Status Begin(int64_t clock, bool files, bool pull, const std::optional<LossScalingState>& loss_scaling);

  // Events for tags of which IsSliceTag is true. Progress thread.
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant);
  void OnGrantEnded(const Status& status);
  void OnWriteEnded(const PlaceTag& tag);
  /// The verdict of `clock` is go. Any thread.
  void OnVerdict(int64_t clock);

  /// Waits until everything begun is sent, and on the disk or given up. Main thread, when training is done.
  /// @return what kept the last snapshot from the disk.
  Status Finish();

 private:
  const std::function<void()> on_room_;
  // The first node has a writer and a gatherer, the others a sender.
  std::unique_ptr<SnapshotWriter> writer_;
  std::unique_ptr<SliceGatherer> gatherer_;
  std::unique_ptr<SliceSender> sender_;
};

}  // namespace hp
