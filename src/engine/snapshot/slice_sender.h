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

/// What a node other than the first does of a snapshot or a pull: between two updates it copies the slices that it owns
/// (Copy), and training goes on; each is written when the first node grants its place, and a copy is given up when all
/// of it has been sent. The first node grants in its own time, so a further copy may be made meanwhile.
/// Memory: at most kMaxCopies times this node's own values and histories.
class SliceSender {
 public:
  static constexpr size_t kMaxCopies = 2;

  /// All outlive it.
  SliceSender(Rank rank, const std::vector<WholeParam>& params, ParamStore* store, Transport* transport)
      : rank_(rank), params_(params), store_(store), transport_(transport) {}

  /// Whether Copy may be called. Once true it stays so until Copy. Any thread; quick.
  bool HasRoom() const HP_EXCLUDES(mutex_);
  /// Copies this node's part of version `clock`. Waits for this node's own device and nothing else. Executor; HasRoom.
  /// @return kInternal: the device failed.
  Status Copy(int64_t clock) HP_EXCLUDES(mutex_);

  /// A place for one slice, perhaps of a clock that is not copied yet. Progress thread.
  void OnGranted(Rank first, const PlaceTag& tag, RemoteGrant grant) HP_EXCLUDES(mutex_);
  /// A slice has been sent. @return whether there is room again. Progress thread.
  bool OnWriteEnded(const PlaceTag& tag) HP_EXCLUDES(mutex_);

  /// Waits until every copy is sent. Main thread.
  void WaitUntilSent() HP_EXCLUDES(mutex_);

 private:
  struct ModelCopy {
    Buffer memory;
    std::map<PlaceTag, std::span<std::byte>> slices;
    size_t unsent = 0;
  };
  void SendGranted() HP_REQUIRES(mutex_);

  const Rank rank_;
  const std::vector<WholeParam>& params_;
  ParamStore* const store_;
  Transport* const transport_;  // posted to under mutex_

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<int64_t, ModelCopy> copies_ HP_GUARDED_BY(mutex_);  // by clock
  std::map<PlaceTag, std::pair<Rank, RemoteGrant>> grants_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
