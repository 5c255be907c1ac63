#pragma once

#include "engine/input/input.h"
#include "engine/input/label_store.h"
#include "engine/stage_exchange.h"
#include "engine/updater.h"
#include "engine/workspace.h"
#include "model/node_model.h"
#include "proto/wire.pb.h"
#include "solvers/param_store.h"
#include "tensor/device.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace hp {

/// What a node computes: segments of its nets for the pipeline's tasks, and the updates of its parameters. A task is
/// put into the device's queues (Enqueue), and its results are taken when the device has done it (Collect). What is
/// common; HostCompute and DeviceCompute run the segments. Owned by the node, made before the pipeline.
class Compute {
 public:
  /// Statistics of a micro-batch: one value for each output of its NodeNet.
  using StatisticsSink = std::function<void(MsgId id, const std::vector<float>& values)>;

  struct Options {
    int pool_size = 1;  ///< solvers
    Device* device = nullptr;
    Backend* backend = nullptr;
    ParamStore* params = nullptr;
    std::map<int, StageExchange*> exchanges;  ///< by stage: those in which other nodes have parts of our gradients
    const LabelStore* labels = nullptr;
    Input *train_input = nullptr, *test_input = nullptr;
    StatisticsSink on_statistics;  ///< from Collect
    /// Whether the transport reaches the device's memory for tensors from and to a peer; those of others pass through
    /// the host. Of no account on the host's device.
    std::function<bool(Rank peer)> reaches = [](Rank) { return false; };
    float loss_scale = 1;  ///< of the first clock
  };

  /// A HostCompute or a DeviceCompute, by the device. All that `model` and `options` point to must outlive it.
  /// @return kResourceExhausted: the device has not that much memory free.
  static StatusOr<std::unique_ptr<Compute>> Create(const NodeModel& model, Options options);
  virtual ~Compute() = default;

  /// Memory that peers write into and that is sent from: the device's (the solvers', rows of deferred gradients), and
  /// where tensors pass through the host that of the host.
  virtual std::vector<std::span<std::byte>> shared_device_memory() const { return workspace_->shared_memory(); }
  virtual std::span<std::byte> shared_host_memory() const { return {}; }
  /// The bytes of a port, for the transport. Any thread.
  virtual std::span<std::byte> Place(int solver, MsgId id, int port) const;

  /// Puts any task but kBoundary into the device's queues; on the host's device it is done then. Executor thread; never
  /// waits for the device or for another node.
  /// @return where its results are there; of no account on the host's device.
  virtual Device::Mark Enqueue(const Task& task) = 0;
  /// Takes the results of a task that is done. One thread at a time, in the order of Enqueue.
  void Collect(const Task& task);

  /// Updater::OnVerdict.
  void OnVerdict(const Verdict& verdict) { updater_->OnVerdict(verdict); }
  /// What there is to say of `clock` when kNorm or kFinishClock has been collected; then it is forgotten. As Collect.
  VerdictPart TakeVerdictPart(int64_t clock);

 protected:
  /// A micro-batch's task: the net, and what it runs on. `run` points into `views`.
  struct Work {
    const Task& task;
    const NodeNet& net;
    std::vector<ParamView> views = {};
    NetRun run = {};
  };
  /// What a forward task reads from the host's memory; null and empty what it does not read.
  struct HostInputs {
    float* images = nullptr;
    std::span<const float> batch_labels;  ///< of the whole batch
    int64_t first_row = 0;                ///< of the micro-batch within it
  };

  Compute(const NodeModel& model, Options options) : model_(model), options_(std::move(options)) {}
  /// Everything that both kinds need.
  Status Allocate();

  /// Hands a task to the functions below, or to the Updater.
  void Carry(const Task& task);
  /// All but images and labels of a forward, backward or weight gradient task.
  Work WorkOf(const Task& task) const;
  HostInputs InputsOf(const Work& work) const;
  /// Whether the task's gradients go to the exchange when they are computed: those of the clock's last micro-batch.
  bool Exchanges(const Task& task) const;
  /// Runs the backward half of the task's segment, and gives the exchange what it has to have.
  void RunBackward(const Work& work) const;

  virtual void Forward(const Task& task) = 0;
  virtual void Backward(const Task& task) = 0;
  /// Of one micro-batch.
  virtual void WeightGradient(const Task& task) = 0;
  /// The value of output `index` of a forward task that is done.
  virtual float Statistic(const Task& task, const NodeNet& net, int index) const = 0;

  const NodeModel& model_;
  const Options options_;
  std::unique_ptr<Workspace> workspace_;

 private:
  static MsgId InFirstClock(MsgId id) { return MsgId::Make(0, true, id.micro(), id.replica()); }
  void GiveToExchange(const Work& work, const NetStep& step) const;
  void CollectStatistics(const Task& task);

  std::unique_ptr<Updater> updater_;
  MsgId first_id_, last_id_;               // of a clock, in clock 0
  std::map<int64_t, VerdictPart> losses_;  // what there is to say of them, by clock; one
};

}  // namespace hp
