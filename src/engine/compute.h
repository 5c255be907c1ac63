#pragma once

#include "engine/host_bridge.h"
#include "engine/images_ahead.h"
#include "engine/input.h"
#include "engine/label_store.h"
#include "engine/port_staging.h"
#include "engine/stage_exchange.h"
#include "engine/updater.h"
#include "engine/workspace.h"
#include "model/node_model.h"
#include "proto/wire.pb.h"
#include "solvers/param_store.h"
#include "tensor/device.h"

#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace hp {

/// What a node computes: segments of its nets for the pipeline's tasks, and the updates of its parameters, on its
/// device. A task is put into the device's queues (Enqueue), and its results are taken when the device has done it
/// (Collect); on the host's device the one follows the other at once.
class Compute {
 public:
  /// Statistics of a micro-batch: one value for each output of its NodeNet.
  using StatisticsSink = std::function<void(MsgId id, const std::vector<float>& values)>;

  struct Options {
    int pool_size = 1;  ///< solvers
    Device* device = nullptr;
    Backend* backend = nullptr;
    ParamStore* params = nullptr;
    StageExchange* exchange = nullptr;  ///< null: no other node has parts of our gradients
    const LabelStore* labels = nullptr;
    Input *train_input = nullptr, *test_input = nullptr;
    StatisticsSink on_statistics;  ///< from Collect
    /// Whether the transport reaches the device's memory for tensors from and to a peer; those of others pass through
    /// the host. Of no account on the host's device.
    std::function<bool(Rank peer)> reaches = [](Rank) { return false; };
    float loss_scale = 1;  ///< of the first clock
  };

  /// @return kResourceExhausted: the device has not so much memory.
  static StatusOr<std::unique_ptr<Compute>> Create(const NodeModel& model, Options options);

  /// Memory that peers write into and that is sent from: the device's (the solvers', rows of deferred gradients), and
  /// where tensors pass through the host that of the host.
  std::vector<std::span<std::byte>> shared_device_memory() const;
  std::span<std::byte> shared_host_memory() const { return staging_ ? staging_->memory() : std::span<std::byte>(); }

  /// The bytes of a port, for the transport. Any thread.
  std::span<std::byte> Place(int solver, MsgId id, int port) const;

  /// Puts any task but kBoundary into the device's queues; on the host's device it is done then. Executor thread.
  /// @return where its results are there.
  Device::Mark Enqueue(const Task& task);
  /// Takes the results of a task that is done. One thread at a time, in the order of Enqueue.
  void Collect(const Task& task);

  /// Updater::OnVerdict.
  void OnVerdict(const Verdict& verdict) { updater_->OnVerdict(verdict); }
  /// What there is to say of `clock` when kNorm or kFinishClock has been collected.
  VerdictPart TakeVerdictPart(int64_t clock);

 private:
  enum RepeatKind : uint64_t { kRepeatForward, kRepeatBackward, kRepeatWeights, kRepeatDeferred };

  Compute(const NodeModel& model, Options options) : model_(model), options_(std::move(options)) {}
  Status Allocate();
  /// Whether the micro-batch adds to gradients that another one began.
  bool Accumulates(MsgId id) const { return InFirstClock(id) != first_id_; }
  static MsgId InFirstClock(MsgId id) { return MsgId::Make(0, true, id.micro(), id.replica()); }
  Device::RepeatKey KeyOf(RepeatKind kind, int part, const NodeNet& net, const NetRun& run) const;

  void EnqueueWork(const Task& task);
  void GiveToExchange(const Task& task, const NodeNet& net, const NetStep& step);
  void Forward(const Task& task);
  void Backward(const Task& task);
  void WeightGradient(const Task& task);
  void UseInputs(const Task& task, const NodeNet& net, NetRun* run);
  void CollectStatistics(const Task& task);

  const NodeModel& model_;
  const Options options_;

  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<HostBridge> bridge_;    // null on the host's device
  std::unique_ptr<PortStaging> staging_;  // likewise
  std::unique_ptr<ImagesAhead> ahead_;    // null there, and where no images are read
  MsgId first_id_, last_id_;              // of a clock, in clock 0
  std::unique_ptr<Updater> updater_;
  std::map<int64_t, VerdictPart> losses_;  // what there is to say of them, by clock; one
};

}  // namespace hp
