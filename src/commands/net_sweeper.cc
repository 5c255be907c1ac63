#include "commands/net_sweeper.h"

#include "base/format.h"
#include "base/memory_room.h"
#include "solvers/param_store.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

namespace hp {
namespace {

/// Numbers between -scale and scale: products of zeros may be faster than those of numbers.
void FillRandom(std::span<float> values, float scale) {
  uint32_t state = 0x9e3779b9;
  for (float& value : values) {
    state = state * 1664525 + 1013904223;
    value = scale * (static_cast<float>(state >> 8) / (1 << 23) - 1);
  }
}

/// Of the host, where that is the device; others say so themselves when they are out of memory.
Status CheckRoom(const Device& device, const std::string& what, size_t bytes, const char* advice) {
  if (!device.is_host()) return OkStatus();
  const MemoryRoom room = HostMemoryRoom();
  if (bytes <= static_cast<size_t>(room.bytes)) return OkStatus();
  return InvalidArgument("%s need %s, %s %s%s", what.c_str(), MegaBytes(bytes).c_str(), room.limit.c_str(),
                         MegaBytes(static_cast<size_t>(room.bytes)).c_str(), advice);
}

/// Memory of the device with such numbers.
StatusOr<Buffer> RandomNumbers(Device* device, size_t count, float scale) {
  HP_ASSIGN_OR_RETURN(Buffer numbers, device->Allocate(count * sizeof(float)));
  if (device->is_host()) {
    FillRandom({numbers.floats(), count}, scale);
    return numbers;
  }
  HP_ASSIGN_OR_RETURN(const Buffer host, device->AllocateHost(count * sizeof(float)));
  FillRandom({host.floats(), count}, scale);
  device->Upload(Device::kCopyIn, numbers.data(), host.data(), count * sizeof(float));
  HP_RETURN_IF_ERROR(device->Synchronize());
  return numbers;
}

}  // namespace

StatusOr<SweepParameters> SweepParameters::Create(const NodePlan& plan, Device* device) {
  size_t bytes = 0;
  for (const ParamPlan& param : plan.params()) bytes += 2 * param.block.count() * sizeof(float);
  HP_RETURN_IF_ERROR(CheckRoom(*device, "the net's parameters and their gradients", bytes, "; take a smaller net"));
  SweepParameters parameters;
  for (const ParamPlan& param : plan.params()) {
    const size_t count = param.block.count();
    const double inputs = std::max<double>(1, static_cast<double>(ColumnsOf(param.spec.shape)));
    HP_ASSIGN_OR_RETURN(Buffer values, RandomNumbers(device, count, static_cast<float>(std::sqrt(3 / inputs))));
    HP_ASSIGN_OR_RETURN(Buffer gradient, device->Allocate(count * sizeof(float)));
    parameters.packed_.push_back(std::make_unique<PackedParams>(device->is_host() ? nullptr : device));
    parameters.views_.push_back({values.floats(), 1, parameters.packed_.back().get()});
    parameters.gradients_.push_back(gradient.floats());
    parameters.memory_.push_back(std::move(values));
    parameters.memory_.push_back(std::move(gradient));
  }
  return parameters;
}

StatusOr<std::unique_ptr<NetSweeper>> NetSweeper::Create(const NodePlan& plan, Device* device, Backend* backend,
                                                         int64_t rows, const SweepParameters& parameters) {
  std::unique_ptr<NetSweeper> sweeper(new NetSweeper(device));
  for (const GraphLayer& layer : plan.graph().layers()) {
    if (layer.sampled_by < 0) continue;
    return InvalidArgument(
        "layer \"%s\": a training with sample_rate below 1 cannot be timed; expected phase TEST, or sample_rate: 1",
        plan.graph().layers()[layer.sampled_by].traits.name().c_str());
  }
  HP_ASSIGN_OR_RETURN(sweeper->net_, NodeNet::Create(plan, {.backend = backend}, rows));
  HP_RETURN_IF_ERROR(sweeper->Allocate(rows));
  NetRun& run = sweeper->run_;
  run.arena = sweeper->arena_.data();
  run.scratch = sweeper->scratch_.data();
  run.params = parameters.views();
  run.gradients = parameters.gradients();
  run.batch.train = plan.graph().phase().train();
  run.batch.global_rows = rows;
  HP_RETURN_IF_ERROR(sweeper->BringInputs());
  return sweeper;
}

Status NetSweeper::Allocate(int64_t rows) {
  const NodeNet& net = *net_;
  HP_RETURN_IF_ERROR(CheckRoom(*device_, Format("%lld row(s) of the net", static_cast<long long>(rows)),
                               net.arena_bytes() + net.scratch_bytes() + net.images_bytes(), ""));
  HP_ASSIGN_OR_RETURN(arena_, device_->Allocate(net.arena_bytes() + 64));
  HP_ASSIGN_OR_RETURN(scratch_, device_->Allocate(net.scratch_bytes() + 64));
  HP_ASSIGN_OR_RETURN(images_, device_->AllocateHost(net.images_bytes() + 64));
  FillRandom({images_.floats(), net.images_bytes() / sizeof(float)}, 1);
  const std::span<const float> behind = net.LabelsBehind(images_.floats());
  if (!behind.empty()) std::fill_n(images_.floats() + (behind.data() - images_.floats()), behind.size(), 0.0f);
  labels_.assign(net.plan().label_numbers() * rows, 0);
  if (device_->is_host()) return OkStatus();
  BridgeNeeds needs;
  needs.nets = {net_.get()};
  needs.batch_rows = rows;
  needs.label_numbers = net.plan().label_numbers();
  HP_ASSIGN_OR_RETURN(bridge_, HostBridge::Create(needs, device_));
  return OkStatus();
}

// A node with all layers has one segment.
Status NetSweeper::BringInputs() {
  if (bridge_) {
    bridge_->BringInputs(0, *net_, 0, {images_.floats()}, labels_, 0, &run_);
    return device_->Synchronize();
  }
  run_.images = images_.floats();
  run_.batch.SetBatchLabels(labels_);
  run_.batch.labels = run_.batch.batch_labels;
  const std::span<const float> behind = net_->LabelsBehind(run_.images);
  if (!behind.empty()) run_.batch.labels = behind;
  return OkStatus();
}

Status NetSweeper::Sweep(const OnPass& on_pass) {
  Status failure;
  const auto timed = [&](const NetStep& step, Pass pass, const auto& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    if (failure.ok()) failure = device_->Synchronize();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (on_pass) on_pass(step, pass, took.count());
  };
  for (const NetStep& step : net_->steps()) {
    timed(step, Pass::kForward, [&] { net_->ForwardStep(step, run_); });
  }
  for (auto step = net_->steps().rbegin(); step != net_->steps().rend(); ++step) {
    timed(*step, Pass::kInputGradient, [&] { net_->InputGradient(*step, run_); });
    if (step->learns) timed(*step, Pass::kWeightGradient, [&] { net_->WeightGradient(*step, run_); });
  }
  return failure;
}

}  // namespace hp
