#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "checkpoint/snapshot.h"
#include "model/node_model.h"
#include "solvers/param_store.h"
#include "tensor/buffer.h"
#include "transport/transport.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hp {

/// The weights of the whole net at one iteration, in the memory of the first node.
struct GatheredModel {
  int64_t iteration = 0;
  std::vector<Buffer> values, histories;  ///< by whole parameter; histories may be empty buffers
  std::optional<LossScalingState> loss_scaling;
};

/// Snapshots and pulls. Between two updates every node copies what it owns (Begin); the first node grants places for
/// all slices and the owners write into them while training goes on; then it writes the files on a thread of its own,
/// and renames them into place when the verdict of their iteration is there, and answers clients from the same copy.
class Snapshotter {
 public:
  struct Options {
    std::string prefix;
    SnapshotManifest manifest;  ///< without the files
    /// How often a failed write is tried again, and how long it waits in between.
    int retry_ms = 5000;
    /// Called with every model that was gathered for a pull. Executor or progress thread; must not block.
    std::function<void(std::shared_ptr<GatheredModel>)> on_pulled;
  };

  Snapshotter(const NodeModel& model, ParamStore* params, Transport* transport, Options options);
  ~Snapshotter();

  /// Copies this node's part of version `clock`; alike on all nodes. Waits until the copy before it is sent; for files,
  /// also until those before it are written or given up. Executor.
  /// @param loss_scaling what the first node's snapshot is to say of it.
  /// @return kInternal: the device failed.
  Status Begin(int64_t clock, bool files, bool pull, const std::optional<LossScalingState>& loss_scaling)
      HP_EXCLUDES(mutex_);

  /// Events for tags whose port IsSnapshotPort.
  static bool IsSnapshotPort(const PlaceTag& tag) { return (tag.port & kPortBit) != 0; }
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant) HP_EXCLUDES(mutex_);
  void OnGrantEnded(const PlaceTag& tag, const Status& status) HP_EXCLUDES(mutex_);
  void OnWriteEnded() HP_EXCLUDES(mutex_);
  void OnVerdict(int64_t clock) HP_EXCLUDES(mutex_);

  /// Waits until everything begun is sent and on the disk. @return what kept the last snapshot from the disk.
  Status Finish() HP_EXCLUDES(mutex_);

 private:
  static constexpr uint32_t kPortBit = 0x80000000u;
  struct Copy {
    int64_t clock = -1;
    Buffer memory;
    std::map<uint32_t, std::span<std::byte>> slices;  // by port
    size_t unsent = 0;
  };

  bool first() const { return model_.options().rank == 0; }
  Status CopyOwn(int64_t clock, Copy* copy);
  void GrantPlaces(int64_t clock) HP_REQUIRES(mutex_);
  /// Hands a complete model to the writer. @return it, if it is for a pull as well.
  std::shared_ptr<GatheredModel> TakeGathered() HP_REQUIRES(mutex_);
  void SendGranted() HP_REQUIRES(mutex_);
  void Run();
  Status WriteFiles(const GatheredModel& gathered) HP_EXCLUDES(mutex_);
  bool WaitForVerdict(int64_t clock) HP_EXCLUDES(mutex_);
  /// @return false: it is no longer worth it.
  bool WaitToTryAgain() HP_EXCLUDES(mutex_);

  const NodeModel& model_;
  ParamStore* const params_;
  Transport* const transport_;
  const Options options_;
  std::shared_ptr<const caffe::NetParameter> train_net_;

  Mutex mutex_;
  CondVar changed_;
  Copy copy_ HP_GUARDED_BY(mutex_);
  std::map<std::pair<int64_t, uint32_t>, std::pair<Rank, RemoteGrant>> grants_ HP_GUARDED_BY(mutex_);
  std::shared_ptr<GatheredModel> gathering_ HP_GUARDED_BY(mutex_);
  std::shared_ptr<GatheredModel> to_write_ HP_GUARDED_BY(mutex_);
  size_t missing_ HP_GUARDED_BY(mutex_) = 0;
  bool want_files_ HP_GUARDED_BY(mutex_) = false, want_pull_ HP_GUARDED_BY(mutex_) = false;
  bool writing_ HP_GUARDED_BY(mutex_) = false;  // from to_write_ on until it is on the disk or given up
  int64_t verdict_ HP_GUARDED_BY(mutex_) = -1;
  bool stop_ HP_GUARDED_BY(mutex_) = false, newer_wanted_ HP_GUARDED_BY(mutex_) = false;
  Status last_ HP_GUARDED_BY(mutex_);
  Thread thread_;
};

}  // namespace hp
