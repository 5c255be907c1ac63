#include "engine/compute.h"

#include "glog/logging.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace hp {
StatusOr<std::unique_ptr<Compute>> Compute::Create(const NodeModel& model, Options options) {
  std::unique_ptr<Compute> compute(new Compute(model, std::move(options)));
  HP_RETURN_IF_ERROR(compute->Allocate());
  return compute;
}

Status Compute::Allocate() {
  Device* const device = options_.device;
  HP_ASSIGN_OR_RETURN(workspace_, Workspace::Create(model_, options_.pool_size, device, options_.params));
  if (!device->is_host()) {
    HP_ASSIGN_OR_RETURN(bridge_, HostBridge::Create(BridgeNeedsOf(model_, options_.pool_size), device));
    HP_ASSIGN_OR_RETURN(staging_, PortStaging::Create(model_, options_.pool_size, device, options_.reaches));
    HP_ASSIGN_OR_RETURN(ahead_, ImagesAhead::Create(model_, device, options_.train_input));
  }
  HP_ASSIGN_OR_RETURN(updater_, Updater::Create(model_, {device, options_.backend, options_.params, workspace_.get(),
                                                         options_.loss_scale}));
  const std::vector<MsgId> ids = model_.schedule().TrainIds(0, model_.replica());
  if (!ids.empty()) {
    first_id_ = ids.front();
    last_id_ = ids.back();
  }
  return device->Synchronize();
}

std::vector<std::span<std::byte>> Compute::shared_device_memory() const {
  if (staging_ && !staging_->any_direct()) return {};
  return workspace_->shared_memory();
}

std::span<std::byte> Compute::Place(int solver, MsgId id, int port) const {
  const NodeNet& net = workspace_->NetOf(id);
  if (staging_ && staging_->staged(id, port)) return staging_->Place(solver, id, net, port);
  return net.BufferSpan(net.ports()[port].buffer, workspace_->RunOf(solver, id));
}

Device::RepeatKey Compute::KeyOf(RepeatKind kind, int part, const NodeNet& net, const NetRun& run) const {
  const uint64_t row = net.update_row_bytes().empty() ? 0 : static_cast<uint64_t>(run.update_row);
  return {reinterpret_cast<uint64_t>(&net),
          reinterpret_cast<uint64_t>(run.arena),
          kind,
          static_cast<uint64_t>(part),
          row,
          run.accumulate};
}

// --- Tasks

Device::Mark Compute::Enqueue(const Task& task) {
  EnqueueWork(task);
  if (ahead_) ahead_->Advance();
  options_.device->Order(Device::kCompute, Device::kCopyOut);
  return options_.device->Record(Device::kCopyOut);
}

void Compute::EnqueueWork(const Task& task) {
  switch (task.kind) {
    case Task::kForward:
      return Forward(task);
    case Task::kBackward:
      return Backward(task);
    case Task::kWeightGradient:
      return WeightGradient(task);
    case Task::kNorm:
      return updater_->Norm();
    case Task::kUpdate:
      return updater_->Update(task);
    case Task::kBoundary:
    case Task::kFinishClock:
      return;
  }
}

void Compute::Collect(const Task& task) {
  if (task.kind == Task::kForward) CollectStatistics(task);
}

// What a task reads from the host: on the host's device in place.
void Compute::UseInputs(const Task& task, const NodeNet& net, NetRun* run) {
  run->batch.loss_scale = updater_->loss_scale(task.clock);
  if (bridge_ && task.kind != Task::kForward) return bridge_->UseInputs(task.solver, net, run);
  Input* const input = task.id.train() ? options_.train_input : options_.test_input;
  float* const images = net.reads_images() ? input->images(task.id) : nullptr;
  std::span<const float> labels;
  if (net.reads_labels(task.segment)) labels = options_.labels->BatchOf(task.id);
  const IdSamples samples = model_.schedule().SamplesOfId(task.id);
  if (bridge_) {
    const bool reads = images != nullptr && task.segment == 0;
    const bool here = reads && ahead_ && ahead_->Take(task.id, bridge_->images(task.solver), net.images_bytes());
    bridge_->BringInputs(task.solver, net, task.segment, reads && !here ? images : nullptr, labels, samples.first_row,
                         run);
    return;
  }
  run->images = images;
  run->batch.batch_labels = labels;
  if (!labels.empty()) run->batch.labels = labels.subspan(samples.first_row, samples.rows);
}

// Work that is repeated does not ask for packed parameters again.
void RefreshPacked(const NetRun& run) {
  for (const ParamView& view : run.params) view.packed->Refresh(view.version);
}

void Compute::Forward(const Task& task) {
  const NodeNet& net = workspace_->NetOf(task.id);
  std::vector<ParamView> views;
  NetRun run = workspace_->RunOf(task.solver, task.id);
  workspace_->UseParams(net, &views, &run);
  UseInputs(task, net, &run);
  if (!bridge_) return net.Forward(task.segment, run);
  staging_->Bring(task, net, run, false);
  bridge_->BeginWork();
  RefreshPacked(run);
  options_.device->Repeat(KeyOf(kRepeatForward, task.segment, net, run), [&] { net.Forward(task.segment, run); });
  bridge_->EndWork();
  staging_->Send(task, net, run, false);
  bridge_->FetchStatistics(task.solver, net, run);
}

void Compute::CollectStatistics(const Task& task) {
  const NodeNet& net = workspace_->NetOf(task.id);
  const NetRun run = workspace_->RunOf(task.solver, task.id);
  std::vector<float> values;
  int last_segment = -1;
  for (size_t i = 0; i < net.outputs().size(); ++i) {
    const NetOutput& output = net.outputs()[i];
    last_segment = std::max(last_segment, output.segment);
    values.push_back(bridge_ ? bridge_->statistics(task.solver)[i] : net.ValueOf(output.tensor, run).floats()[0]);
    const bool bad = output.segment == task.segment && task.id.train() && !std::isfinite(values.back());
    if (!bad || !losses_[task.clock].finite()) continue;
    losses_[task.clock].set_finite(false);
    losses_[task.clock].set_layer(output.layer);
  }
  if (last_segment == task.segment) options_.on_statistics(task.id, values);
}

void Compute::Backward(const Task& task) {
  const NodeNet& net = workspace_->NetOf(task.id);
  std::vector<ParamView> views;
  NetRun run = workspace_->RunOf(task.solver, task.id);
  workspace_->UseParams(net, &views, &run);
  UseInputs(task, net, &run);
  run.accumulate = Accumulates(task.id);
  const bool exchanges = options_.exchange != nullptr && InFirstClock(task.id) == last_id_;
  const auto work = [&] {
    net.Backward(task.segment, run, model_.data_parallel(), [&](const NetStep& step) {
      if (exchanges) GiveToExchange(task, net, step);
    });
  };
  if (!bridge_) return work();
  staging_->Bring(task, net, run, true);
  bridge_->BeginWork();
  RefreshPacked(run);
  if (exchanges) {
    work();  // what is repeated gives nothing to the exchange
  } else {
    options_.device->Repeat(KeyOf(kRepeatBackward, task.segment, net, run), work);
  }
  bridge_->EndWork();
  staging_->Send(task, net, run, true);
}

// The same layer's step has the same index in the nets of all numbers of rows.
void Compute::GiveToExchange(const Task& task, const NodeNet& net, const NetStep& step) {
  const std::vector<int>& steps = model_.unit_steps();
  const auto unit = std::find(steps.begin(), steps.end(), &step - net.steps().data());
  CHECK(unit != steps.end()) << "layer " << step.name << " is no unit";
  options_.exchange->Add(task.clock, static_cast<int>(unit - steps.begin()));
}

void Compute::WeightGradient(const Task& task) {
  if (task.id.bits == 0) return updater_->DeferredGradient(task.unit);
  const NodeNet& net = workspace_->NetOf(task.id);
  std::vector<ParamView> views;
  NetRun run = workspace_->RunOf(task.solver, task.id);
  workspace_->UseParams(net, &views, &run);
  UseInputs(task, net, &run);
  run.accumulate = Accumulates(task.id);
  const NetStep& step = net.steps()[model_.unit_steps()[task.unit]];
  options_.device->Repeat(KeyOf(kRepeatWeights, task.unit, net, run), [&] { net.WeightGradient(step, run); });
}

VerdictPart Compute::TakeVerdictPart(int64_t clock) {
  VerdictPart part = std::move(losses_[clock]);
  losses_.erase(clock);
  part.set_clock(clock);
  updater_->AddNorms(clock, &part);
  return part;
}

}  // namespace hp
