// Each solver's inputs have fixed places in device memory, large enough for every net of the node: ops and captured
// graphs keep the addresses, and only the bytes change. Everything but images is first laid out in pinned host memory,
// in the order that it has on the device. So a task needs one copy, for which the driver does not wait. There is an
// area for each task that may be enqueued and not done, in turn: no copy still reads the one that is written. Only what
// the segment reads is laid out anew. In front of labels of the batch the copied range may hold labels of another task:
// only where those of the micro-batch lie behind its images, and nobody reads these.
//
// Statistics are a few numbers. They are copied to the host by the compute queue itself: another queue would have to be
// waited for by the solver's next task, which may use the memory of a loss for a gradient.
#include "engine/host_bridge.h"

#include "engine/staged_bytes.h"
#include "engine/tasks_ahead.h"
#include "model/node_model.h"

#include <algorithm>

namespace hp {

BridgeNeeds BridgeNeedsOf(const NodeModel& model, int pool_size) {
  BridgeNeeds needs;
  for (const Phase phase : model.phases()) {
    for (const NodeNet* net : model.AllNets(phase)) needs.nets.push_back(net);
    const auto numbers = static_cast<int64_t>(model.job().label_numbers(phase).size());
    needs.label_numbers = std::max(needs.label_numbers, numbers);
  }
  needs.solvers = pool_size;
  needs.tasks = kMostTasksAhead;
  needs.raw = true;
  needs.batch_rows = model.schedule().shape().largest_batch();
  return needs;
}

HostBridge::Layout HostBridge::LayoutOf(const BridgeNeeds& needs) {
  size_t images = 0, raw = 0;
  int64_t rows = 0;
  for (const NodeNet* net : needs.nets) {
    rows = std::max(rows, net->rows());
    images = std::max(images, net->images_bytes());
    if (needs.raw) raw = std::max(raw, net->raw_images_bytes());
  }
  Layout layout;
  layout.labels = StagedBytes(sizeof(Numbers));
  layout.batch_labels = layout.labels + StagedBytes(rows * sizeof(float));
  layout.images = layout.batch_labels + StagedBytes(needs.label_numbers * needs.batch_rows * sizeof(float));
  layout.raw = layout.images + StagedBytes(images);
  layout.bytes = layout.raw + StagedBytes(raw);
  return layout;
}

size_t HostBridge::DeviceBytes(const BridgeNeeds& needs) { return needs.solvers * LayoutOf(needs).bytes; }

StatusOr<std::unique_ptr<HostBridge>> HostBridge::Create(const BridgeNeeds& needs, Device* device) {
  std::unique_ptr<HostBridge> bridge(new HostBridge(device));
  HP_RETURN_IF_ERROR(bridge->Allocate(needs));
  return bridge;
}

Status HostBridge::Allocate(const BridgeNeeds& needs) {
  const size_t solvers = needs.solvers;
  layout_ = LayoutOf(needs);
  tasks_ = static_cast<int64_t>(needs.tasks);
  block_bytes_ = layout_.bytes;
  for (const NodeNet* net : needs.nets) outputs_ = std::max(outputs_, net->outputs().size());
  HP_ASSIGN_OR_RETURN(blocks_, device_->Allocate(solvers * block_bytes_));
  HP_ASSIGN_OR_RETURN(staged_, device_->AllocateHost(needs.tasks * layout_.images));
  HP_ASSIGN_OR_RETURN(statistics_, device_->AllocateHost(std::max<size_t>(needs.tasks * outputs_, 1) * sizeof(float)));
  return OkStatus();
}

void HostBridge::UseInputs(int solver, const NodeNet& net, NetRun* run) const {
  std::byte* const begin = block(solver);
  run->images = images(solver);
  const Numbers* const numbers = reinterpret_cast<const Numbers*>(begin);
  run->batch.first_sample_on_device = &numbers->first_sample;
  run->batch.loss_scale_on_device = &numbers->loss_scale;
  run->batch.labels = {reinterpret_cast<const float*>(begin + layout_.labels), static_cast<size_t>(net.rows())};
  run->batch.SetBatchLabels({reinterpret_cast<const float*>(begin + layout_.batch_labels),
                             static_cast<size_t>(net.plan().label_numbers() * run->batch.global_rows)});
  const std::span<const float> behind = net.LabelsBehind(run->images);
  if (!behind.empty()) run->batch.labels = behind;
}

void HostBridge::BringInputs(int solver, const NodeNet& net, int segment, const HostImages& images,
                             std::span<const float> labels, int64_t first_row, NetRun* run) {
  std::byte* const staged = staged_.data() + brought_++ % tasks_ * layout_.images;
  *reinterpret_cast<Numbers*>(staged) = {run->batch.first_sample, run->batch.loss_scale};
  size_t end = sizeof(Numbers);
  const auto stage = [&](size_t offset, std::span<const float> values) {
    std::ranges::copy(values, reinterpret_cast<float*>(staged + offset));
    end = offset + values.size_bytes();
  };
  if (net.plan().reads_labels(segment) && net.LabelsBehind(this->images(solver)).empty()) {
    stage(layout_.labels, labels.subspan(first_row, net.rows()));
  }
  if (net.plan().needs_batch_labels(segment)) stage(layout_.batch_labels, labels);
  device_->Upload(Device::kCopyIn, block(solver), staged, end);
  if (images.data != nullptr && images.raw) {
    device_->Upload(Device::kCopyIn, raw(solver), images.data, net.raw_images_bytes());
  } else if (images.data != nullptr) {
    device_->Upload(Device::kCopyIn, this->images(solver), images.data, net.images_bytes());
  }
  UseInputs(solver, net, run);
}

int64_t HostBridge::FetchStatistics(const NodeNet& net, const NetRun& run) {
  float* const to = statistics_.floats() + fetched_ % tasks_ * outputs_;
  for (size_t i = 0; i < net.outputs().size(); ++i) {
    device_->Download(Device::kCompute, to + i, net.ValueOf(net.outputs()[i].tensor, run).data, sizeof(float));
  }
  return fetched_++;
}

}  // namespace hp
