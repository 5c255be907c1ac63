// Tasks of micro-batches run segments of a NodeNet in a solver's memory; tasks of a whole update are the Updater's.
// Both work in one Workspace; Compute knows the Updater, and the Updater does not know Compute. A gradient goes from
// the last micro-batch's backward pass straight to the exchange, layer by layer, so that sums are under way while the
// pass goes on; every earlier micro-batch has added its own by then, because backward tasks of replicas go in the order
// of ids.

#include "engine/device_compute.h"
#include "engine/host_compute.h"

#include "glog/logging.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace hp {

StatusOr<std::unique_ptr<Compute>> Compute::Create(const NodeModel& model, Options options) {
  if (options.device->is_host()) return HostCompute::Create(model, std::move(options));
  return DeviceCompute::Create(model, std::move(options));
}

Status Compute::Allocate() {
  HP_ASSIGN_OR_RETURN(workspace_, Workspace::Create(model_, options_.pool_size, options_.device, options_.params));
  sampler_ = std::make_unique<ClassSampler>(model_, options_.labels);
  HP_ASSIGN_OR_RETURN(updater_,
                      Updater::Create(model_, {options_.device, options_.backend, options_.params, workspace_.get(),
                                               sampler_.get(), options_.server, options_.loss_scale, options_.rates}));
  for (const MsgId id : model_.schedule().TrainIds(0, model_.plan().share)) {
    for (const StagePart& part : model_.NetOf(id).plan().parts()) {
      first_ids_.emplace(part.stage, id);
      last_ids_[part.stage] = id;
    }
  }
  return OkStatus();
}

std::span<std::byte> Compute::Place(int solver, MsgId id, int port) const {
  const NodeNet& net = workspace_->NetOf(id);
  return net.BufferSpan(net.port_buffer(port), workspace_->RunOf(solver, id));
}

// --- Tasks

void Compute::Carry(const Task& task) {
  switch (task.kind) {
    case Task::kPull:
      return options_.exchanges.at(model_.plan().groups[task.group].stage)->Pull(task.clock, task.group);
    case Task::kForward:
      return Forward(task);
    case Task::kBackward:
      return Backward(task);
    case Task::kWeightGradient:
      return task.id.bits == 0 ? updater_->DeferredGradient(task.clock, task.group) : WeightGradient(task);
    case Task::kNorm:
      return updater_->Norm(task.clock);
    case Task::kUpdate:
      return Update(task);
    case Task::kBoundary:
    case Task::kFinishClock:
      return;
  }
}

// Also where the verdict skips the update: replicas wait for values, and these are then the old ones.
void Compute::Update(const Task& task) {
  updater_->Update(task);
  if (model_.plan().groups[task.group].exchange == GroupExchange::kServe)
    options_.server->Serve(task.clock, task.group);
}

Compute::Work Compute::WorkOf(const Task& task) const {
  Work work{task, workspace_->NetOf(task.id)};
  work.run = workspace_->RunOf(task.solver, task.id);
  if (task.id.train()) work.run.samples = &sampler_->samples();
  workspace_->UseParams(work.net, task.version, &work.views, &work.run);
  work.run.batch.loss_scale = updater_->loss_scale(task.clock);
  const std::vector<StagePart>& parts = work.net.plan().parts();
  for (size_t p = 0; p < parts.size() && task.kind != Task::kForward; ++p) {
    if (InFirstClock(task.id) != first_ids_.at(parts[p].stage)) work.run.accumulate |= uint64_t{1} << p;
  }
  return work;
}

Compute::HostInputs Compute::InputsOf(const Work& work) const {
  const Task& task = work.task;
  HostInputs inputs;
  if (work.net.plan().reads_images()) {
    const Input& input = options_.inputs->Of(task.id);
    inputs.images = input.images(task.id);
    inputs.raw = input.raw(task.id);
  }
  if (work.net.plan().reads_labels(task.segment)) inputs.batch_labels = options_.labels->BatchOf(task.id);
  inputs.first_row = model_.schedule().SamplesOfId(task.id).first_row;
  return inputs;
}

// --- Gradients

bool Compute::Exchanges(const Task& task) const {
  return std::any_of(options_.exchanges.begin(), options_.exchanges.end(),
                     [&](const auto& entry) { return IsLast(task.id, entry.first); });
}

void Compute::RunBackward(const Work& work) const {
  std::function<void(const NetStep&)> on_weights;
  if (Exchanges(work.task)) {
    on_weights = [&](const NetStep& step) {
      const std::optional<int> group = ExchangedBehind(work, step);
      if (group) ExchangeOf(*group)->Add(work.task.clock, *group);
    };
  }
  work.net.Backward(work.task.segment, work.run, on_weights);
}

std::optional<int> Compute::ExchangedBehind(const Work& work, const NetStep& step) const {
  if (!step.in_backward) return std::nullopt;
  const int group = model_.GroupOf(step);
  const ParamGroupPlan& plan = model_.plan().groups[group];
  if (step.layer_index != plan.layer) return std::nullopt;  // others add to the gradient
  if (plan.exchange == GroupExchange::kNone || !IsLast(work.task.id, plan.stage)) return std::nullopt;
  return group;
}

// --- Results

void Compute::Collect(const Task& task) {
  if (task.kind == Task::kForward) CollectStatistics(task);
}

void Compute::CollectStatistics(const Task& task) {
  const NodeNet& net = workspace_->NetOf(task.id);
  std::map<int, std::vector<float>> values;  // by stage
  std::map<int, int> last_segment;           // likewise
  for (size_t i = 0; i < net.outputs().size(); ++i) {
    const NetOutput& output = net.outputs()[i];
    last_segment[output.stage] = std::max(last_segment[output.stage], output.segment);
    const bool there = output.segment <= task.segment;
    values[output.stage].push_back(there ? Statistic(task, net, static_cast<int>(i)) : 0);
    // Of what is only printed it is the reader's business.
    const bool counts = output.segment == task.segment && task.id.train() && output.loss_weight != 0;
    const bool bad = counts && !std::isfinite(values[output.stage].back());
    if (!bad || !losses_[task.clock].finite()) continue;
    losses_[task.clock].set_finite(false);
    losses_[task.clock].set_layer(output.layer);
  }
  for (const auto& [stage, of_stage] : values) {
    if (last_segment[stage] == task.segment) options_.on_statistics(task.id, stage, of_stage);
  }
  // So that the reporter knows how far it is.
  const bool read = task.id.train() && task.segment == 0 && net.plan().FindPart(0) >= 0;
  if (read && model_.job().outputs(caffe::TRAIN).empty()) options_.on_statistics(task.id, 0, {});
}

IterationReport Compute::TakeReport(int64_t clock) {
  IterationReport report = std::move(losses_[clock]);
  losses_.erase(clock);
  report.set_clock(clock);
  updater_->AddNorms(clock, &report);
  return report;
}

}  // namespace hp
