#pragma once

#include "base/mutex.h"
#include "model/node_model.h"
#include "solvers/param_store.h"
#include "tensor/buffer.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace hp {

/// A node's part in snapshots and pulls that other nodes gather: between two updates it copies the slices that it owns
/// (Copy), and training goes on; each slice is written when a gatherer grants its place, and a copy is freed when
/// all of it has been sent to all of them. They may take long to grant, so a further copy may be made meanwhile.
/// Memory: at most kMaxCopies times this node's own values and histories, in the host's memory. Owned by the
/// Snapshotter.
class SliceSender {
 public:
  static constexpr size_t kMaxCopies = 2;

  /// @param rank this node's. @param writers other nodes that gather snapshots (RoutingTable::snapshot_writers); a pull
  /// is gathered by the first node alone, if that is another one. All others must outlive it.
  SliceSender(Rank rank, std::vector<Rank> writers, const std::vector<WholeParam>& params, ParamStore* store,
              Transport* transport)
      : rank_(rank), writers_(std::move(writers)), params_(params), store_(store), transport_(transport) {}

  /// Whether Copy may be called. Once true it stays so until Copy. Any thread; quick.
  bool HasRoom() const HP_EXCLUDES(mutex_);
  /// Copies this node's slices in front of `clock`, values after `version` updates, and sends those whose
  /// places are granted already. Waits for this node's own device and nothing else. Does nothing on a node that owns no
  /// slice, or whose slices nobody else gathers. Executor thread; HasRoom must be true (CHECK).
  /// @param histories for a snapshot: they are copied, too. Alike on all nodes.
  /// @return kInternal: the device failed.
  Status Copy(int64_t clock, int64_t version, bool histories) HP_EXCLUDES(mutex_);

  /// A gatherer granted the place of a slice, perhaps of a clock that is not copied yet. Progress thread.
  void OnGranted(Rank gatherer, const PlaceTag& tag, RemoteGrant grant) HP_EXCLUDES(mutex_);
  /// A slice has been sent, or the connection failed, which ends the job. Progress thread.
  /// @return whether that freed a copy, so that HasRoom may have turned true.
  bool OnWriteEnded(const PlaceTag& tag) HP_EXCLUDES(mutex_);

  /// Blocks until every copy is sent. Main thread.
  void WaitUntilSent() HP_EXCLUDES(mutex_);

 private:
  /// Of one clock.
  struct ModelCopy {
    Buffer memory;
    std::map<PlaceTag, std::span<std::byte>> slices;  // in memory
    size_t unsent = 0;                                // slices, for each gatherer
  };
  /// Writes all slices that have both a copy and a grant.
  void SendGranted() HP_REQUIRES(mutex_);

  const Rank rank_;
  const std::vector<Rank> writers_;
  const std::vector<WholeParam>& params_;
  ParamStore* const store_;
  Transport* const transport_;  // posted to under mutex_: lock order is sender, then transport

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<int64_t, ModelCopy> copies_ HP_GUARDED_BY(mutex_);                      // by clock
  std::map<std::pair<Rank, PlaceTag>, RemoteGrant> grants_ HP_GUARDED_BY(mutex_);  // not used yet
};

}  // namespace hp
