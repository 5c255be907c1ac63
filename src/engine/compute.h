#pragma once

#include "engine/class_sampler.h"
#include "engine/stage_exchange.h"
#include "engine/stage_server.h"
#include "engine/updater.h"
#include "engine/workspace.h"
#include "input/inputs.h"
#include "input/label_store.h"
#include "model/node_model.h"
#include "proto/wire.pb.h"
#include "solvers/param_store.h"
#include "tensor/device.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace hp {

/// What a node computes: segments of its nets for the pipeline's tasks, and the updates of its parameters. A task is
/// put into the device's queues (Enqueue), and its results are taken when the device has finished it (Collect). This
/// class has what all devices share; HostCompute and DeviceCompute run the segments. Owned by the node, which makes it
/// before the pipeline: the pipeline asks for its places.
///
/// Use, for each task but kBoundary (what Executor does):
///   Device::Mark mark = compute->Enqueue(task, nullptr);   // executor thread
///   pipeline->Enqueued(task);                     // not on the host's device, where the task is done already
///   device->Wait(mark);                           // likewise, on "completion"
///   compute->Collect(task);
///   pipeline->Done(task);
class Compute {
 public:
  /// Statistics (losses, accuracies) of micro-batch `id` and a stage: one value for each of the stage's in
  /// NodeNet::outputs(), in that order. Once for each micro-batch and stage with outputs here, when the last segment
  /// with one is done, and where training has no outputs for the first stage. Each is the micro-batch's share of the
  /// whole batch's value, without loss_weight and loss scale; shares are to be added.
  using StatisticsSink = std::function<void(MsgId id, int stage, const std::vector<float>& values)>;

  struct Options {
    int pool_size = 1;             ///< solvers: micro-batches that may be under way at once; at least 1
    Device* device = nullptr;      ///< as that of the model
    Backend* backend = nullptr;    ///< as that of the model
    ParamStore* params = nullptr;  ///< of NodeModel::stored_params
    /// By stage: the exchanges of the gradients that other nodes have parts of. Empty: no gradient is exchanged.
    std::map<int, StageExchange*> exchanges;
    StageServer* server = nullptr;  ///< of a parameter server; else null
    const LabelStore* labels = nullptr;
    const Inputs* inputs = nullptr;  ///< prepared
    StatisticsSink on_statistics;    ///< called by Collect, on its thread; not null
    /// Whether the transport reaches the device's memory for tensors from and to a peer; tensors of other peers pass
    /// through the host's memory. Called by Create alone, for every rank. Not read on the host's device.
    std::function<bool(Rank peer)> reaches = [](Rank) { return false; };
    const LearningRates* rates = nullptr;  ///< of this node
    float loss_scale = 1;                  ///< of the first clock; a power of two, 1: losses are not scaled
  };

  /// Makes a HostCompute or a DeviceCompute, by the device, and allocates the memory of the solvers, the deferred
  /// gradients and the scratch. All that `model` and `options` point to must outlive it; the exchanges, its last task.
  /// @return kResourceExhausted: the device is out of memory.
  static StatusOr<std::unique_ptr<Compute>> Create(const NodeModel& model, Options options);
  virtual ~Compute() = default;

  /// Memory that the transport writes tensors of peers into and sends from, to be registered with it before training.
  /// On the device: the solvers' and the rows of deferred gradients. Empty: all tensors pass through the host.
  virtual std::vector<std::span<std::byte>> shared_device_memory() const { return workspace_->shared_memory(); }
  /// The same in the host's memory, for peers that do not reach the device's. Empty: nothing passes through it.
  virtual std::span<std::byte> shared_host_memory() const { return {}; }
  /// The bytes of a port, where the transport reads or writes them: [rows of `id`, row_bytes of the port], within the
  /// shared memory above. Any thread; quick, takes no lock.
  /// @param port index into the ports of the phase of `id` (NodePlan::ports).
  virtual std::span<std::byte> Place(int solver, MsgId id, int port) const;

  /// Puts any task but kBoundary into the device's queues; on the host's device it computes the task. Executor thread,
  /// in the order of the pipeline's tasks, of which others may not be done: at most kMostTasksAhead are not collected,
  /// this one included (CHECK on a device). Never waits for another node. A failure of the device is not reported here
  /// but by Device::Wait.
  /// @param between_layers null, or called between two layers of a forward or backward task, where it may carry out
  /// other such tasks, with null. Null on devices that queue their work.
  /// @return to be waited for before Collect; meaningless on the host's device.
  virtual Device::Mark Enqueue(const Task& task, const std::function<void()>* between_layers) = 0;
  /// Takes the results of a task that is done: the statistics of a forward task. Must come before Pipeline::Done, which
  /// gives the solver to another micro-batch. One thread at a time, in the order of Enqueue: the executor's on the
  /// host, "completion" on other devices.
  virtual void Collect(const Task& task);

  /// Updater::OnVerdict.
  void OnVerdict(const Verdict& verdict) { updater_->OnVerdict(verdict); }
  /// This node's report of `clock`: whether its losses are finite, and the sum of squares of its gradients; requests of
  /// users are not in it. Once for each clock, after Collect of kNorm where updates wait for the verdict, of
  /// kFinishClock elsewhere; on the thread of Collect.
  IterationReport TakeReport(int64_t clock);

 protected:
  /// A micro-batch's task: the net, and what it runs on. `run.params` points into `views`: do not copy it.
  struct Work {
    const Task& task;
    const NodeNet& net;
    std::vector<ParamView> views = {};
    NetRun run = {};
  };
  /// What a forward task reads from the host's memory; null and empty: it does not read that.
  struct HostInputs {
    float* images = nullptr;              ///< of the micro-batch, as Input::images
    bool raw = false;                     ///< they are raw (Input::raw)
    std::span<const float> batch_labels;  ///< of the whole batch, for BatchContext::SetBatchLabels
    int64_t first_row = 0;                ///< of the micro-batch within the whole batch
  };

  Compute(const NodeModel& model, Options options) : model_(model), options_(std::move(options)) {}
  /// Makes the workspace and the updater.
  Status Allocate();

  /// Hands a task to the functions below, or to the Updater.
  void Carry(const Task& task);
  /// All but images and labels of a forward, backward or weight gradient task.
  Work WorkOf(const Task& task) const;
  HostInputs InputsOf(const Work& work) const;
  /// Whether gradients of the task go to an exchange as they are computed: those of the stage's last micro-batch of the
  /// clock, to which all earlier ones have been added.
  bool Exchanges(const Task& task) const;
  /// Runs the backward pass of the task's segment, and gives final gradients to the exchange.
  void RunBackward(const Work& work) const;
  /// The group whose gradients are final behind a step of the backward pass, and go to an exchange. Where
  /// Exchanges(task).
  std::optional<int> ExchangedBehind(const Work& work, const NetStep& step) const;
  StageExchange* ExchangeOf(int group) const { return options_.exchanges.at(model_.plan().groups[group].stage); }

  virtual void Forward(const Task& task) = 0;
  virtual void Backward(const Task& task) = 0;
  /// Of one micro-batch; deferred ones are the Updater's.
  virtual void WeightGradient(const Task& task) = 0;
  /// The value of output `index` of the net, of a forward task that is done, of its segment or an earlier one. Called
  /// by Collect.
  virtual float Statistic(const Task& task, const NodeNet& net, int index) const = 0;

  const NodeModel& model_;
  const Options options_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<ClassSampler> sampler_;

 private:
  static MsgId InFirstClock(MsgId id) { return MsgId::Make(0, true, id.micro(), id.replica()); }
  bool IsLast(MsgId id, int stage) const { return InFirstClock(id) == last_ids_.at(stage); }
  void Update(const Task& task);
  void CollectStatistics(const Task& task);

  std::unique_ptr<Updater> updater_;
  std::map<int, MsgId> first_ids_,
      last_ids_;  // by stage: the node's training ids of a clock that run it, as in clock 0
  std::map<int64_t, IterationReport> losses_;  // by clock under way: what Collect found so far
};

}  // namespace hp
