// A task in the device's queues: copies in (inputs, tensors of peers that do not reach the device's memory) -> kCompute
// -> copies out (such tensors), ordered by the device, so that the copies of one task run beside the work of another.
// Tasks of one solver may follow each other before the host knows that any is done. Their work is in kCompute, which
// keeps its order; what other queues do with the solver's memory is ordered here: copies in, which overwrite the images
// and numbers that earlier tasks read, wait for kCompute where such tasks may not be done. Copies out read tensors that
// leave the node, which no later task overwrites before they are sent. The work itself is a recording
// (Device::RunCaptured) that is replayed under the same key: what differs from time to time (number of the sample, loss
// scale, labels, images or their bytes) lies in device memory at fixed addresses, which the copies in fill. The last
// micro-batch of a replica is recorded in pieces (backward_pieces.h): its gradients go to the exchange behind each, and
// what is replayed gives nothing to anybody.
#include "engine/device_compute.h"

#include "engine/backward_pieces.h"
#include "engine/tasks_ahead.h"

#include "glog/logging.h"

#include <optional>
#include <utility>
#include <vector>

namespace hp {
namespace {

// Work that is repeated does not ask for packed parameters again.
void RefreshPacked(const NetRun& run) {
  for (const ParamView& view : run.params) view.packed->Refresh(view.version);
}

}  // namespace

StatusOr<std::unique_ptr<Compute>> DeviceCompute::Create(const NodeModel& model, Options options) {
  std::unique_ptr<DeviceCompute> compute(new DeviceCompute(model, std::move(options)));
  HP_RETURN_IF_ERROR(compute->Allocate());
  HP_RETURN_IF_ERROR(compute->AllocateBridges());
  return std::unique_ptr<Compute>(std::move(compute));
}

Status DeviceCompute::AllocateBridges() {
  Device* const device = options_.device;
  HP_ASSIGN_OR_RETURN(bridge_, HostBridge::Create(BridgeNeedsOf(model_, options_.pool_size), device));
  HP_ASSIGN_OR_RETURN(staging_, PortStaging::Create(model_, options_.pool_size, device, options_.reaches));
  HP_ASSIGN_OR_RETURN(expander_, ImageExpander::Create(model_, *options_.inputs, device, options_.backend));
  HP_ASSIGN_OR_RETURN(prefetcher_, InputPrefetcher::Create(model_, device, options_.inputs->train.get()));
  last_tasks_.resize(static_cast<size_t>(options_.pool_size));
  return device->Synchronize();
}

std::vector<std::span<std::byte>> DeviceCompute::shared_device_memory() const {
  if (!staging_->any_direct()) return {};
  return workspace_->shared_memory();
}

std::span<std::byte> DeviceCompute::Place(int solver, MsgId id, int port) const {
  if (staging_->staged(id, port)) return staging_->Place(solver, workspace_->NetOf(id), port);
  return Compute::Place(solver, id, port);
}

Device::Mark DeviceCompute::Enqueue(const Task& task, const std::function<void()>*) {
  ++enqueued_;
  CHECK_LE(enqueued_ - collected_, static_cast<int64_t>(kMostTasksAhead)) << "tasks ahead";
  Carry(task);
  if (task.solver >= 0) last_tasks_[static_cast<size_t>(task.solver)] = enqueued_;
  if (prefetcher_) prefetcher_->Advance();
  options_.device->Order(Device::kCompute, Device::kCopyOut);
  return options_.device->Record(Device::kCopyOut);
}

void DeviceCompute::Collect(const Task& task) {
  Compute::Collect(task);
  forwards_collected_ += task.kind == Task::kForward;
  ++collected_;
}

Device::CaptureKey DeviceCompute::KeyOf(CaptureKind kind, int part, const Work& work) const {
  const uint64_t row = work.net.update_row_bytes().empty() ? 0 : static_cast<uint64_t>(work.run.update_row);
  return {reinterpret_cast<uint64_t>(&work.net),
          reinterpret_cast<uint64_t>(work.run.arena),
          kind,
          static_cast<uint64_t>(part),
          row,
          work.run.accumulate};
}

bool DeviceCompute::BringInputs(Work* work) {
  const Task& task = work->task;
  const NodeNet& net = work->net;
  const HostInputs inputs = InputsOf(*work);
  const bool reads = inputs.images != nullptr && task.segment == 0;
  const bool raw = reads && inputs.raw;
  if (InUse(task.solver)) options_.device->Order(Device::kCompute, Device::kCopyIn);
  void* const place = raw ? static_cast<void*>(bridge_->raw(task.solver)) : bridge_->images(task.solver);
  const bool here = reads && prefetcher_ && prefetcher_->Take(task.id, place);
  bridge_->BringInputs(task.solver, net, task.segment, {reads && !here ? inputs.images : nullptr, raw},
                       inputs.batch_labels, inputs.first_row, &work->run);
  if (raw) {
    const Phase phase = model_.schedule().PhaseOf(task.id);
    expander_->Decode(task.id, phase, net.rows(), inputs.images, bridge_->raw(task.solver));
  }
  return raw;
}

void DeviceCompute::Forward(const Task& task) {
  Work work = WorkOf(task);
  const bool raw = BringInputs(&work);
  staging_->Bring(task, work.net, work.run, false);
  bridge_->BeginWork();
  RefreshPacked(work.run);
  options_.device->RunCaptured(KeyOf(raw ? kCapturedForwardOfRaw : kCapturedForward, task.segment, work), [&] {
    if (raw) return ForwardOfRaw(&work);
    work.net.Forward(task.segment, work.run);
  });
  bridge_->FetchStatistics(work.net, work.run);
  bridge_->EndWork();
  staging_->Send(task, work.net, work.run, false);
}

void DeviceCompute::ForwardOfRaw(Work* work) {
  const Task& task = work->task;
  const Phase phase = model_.schedule().PhaseOf(task.id);
  const RawImages images = expander_->ImagesOf(phase, bridge_->raw(task.solver));
  if (work->net.reads_raw_images()) {
    work->run.raw_images = &images;
  } else {
    expander_->Expand(images, work->net.rows(), bridge_->images(task.solver));
  }
  work->net.Forward(task.segment, work->run);
  work->run.raw_images = nullptr;
}

void DeviceCompute::Backward(const Task& task) {
  Work work = WorkOf(task);
  bridge_->UseInputs(task.solver, work.net, &work.run);
  staging_->Bring(task, work.net, work.run, true);
  bridge_->BeginWork();
  RefreshPacked(work.run);
  if (Exchanges(task)) {
    BackwardInPieces(work);
  } else {
    options_.device->RunCaptured(KeyOf(kCapturedBackward, task.segment, work), [&] { RunBackward(work); });
  }
  bridge_->EndWork();
  staging_->Send(task, work.net, work.run, true);
}

// A piece is the same steps whatever lies before and behind it, so these name it.
void DeviceCompute::BackwardInPieces(const Work& work) {
  const std::vector<NetStep>& all = work.net.steps();
  std::vector<const NetStep*> steps;
  std::vector<StepGradients> gradients;
  for (auto step = all.rbegin(); step != all.rend(); ++step) {
    if (step->segment != work.task.segment || !step->backward) continue;
    steps.push_back(&*step);
    gradients.emplace_back();
    const std::optional<int> group = ExchangedBehind(work, *step);
    if (group) gradients.back() = {model_.plan().groups[*group].stage, *group, ExchangeOf(*group)->BytesOf(*group)};
  }
  for (const BackwardPiece& piece : CutBackward(gradients)) {
    const auto first = static_cast<int>(steps[piece.begin] - all.data());
    const auto last = static_cast<int>(steps[piece.end - 1] - all.data());
    const int part = first * static_cast<int>(all.size()) + last;
    options_.device->RunCaptured(KeyOf(kCapturedPiece, part, work), [&] {
      for (size_t i = piece.begin; i < piece.end; ++i) work.net.BackwardStep(*steps[i], work.run);
      work.net.FinishGradients();
    });
    for (const int group : piece.groups) ExchangeOf(group)->Add(work.task.clock, group);
  }
}

void DeviceCompute::WeightGradient(const Task& task) {
  Work work = WorkOf(task);
  bridge_->UseInputs(task.solver, work.net, &work.run);
  options_.device->RunCaptured(KeyOf(kCapturedWeights, task.group, work), [&] {
    for (const NetStep* step : model_.StepsOf(work.net, task.group)) work.net.WeightGradient(*step, work.run);
  });
}

float DeviceCompute::Statistic(const Task&, const NodeNet&, int index) const {
  return bridge_->statistics(forwards_collected_)[index];
}

}  // namespace hp
