#include "engine/host_compute.h"

#include <utility>

namespace hp {

StatusOr<std::unique_ptr<Compute>> HostCompute::Create(const NodeModel& model, Options options) {
  std::unique_ptr<HostCompute> compute(new HostCompute(model, std::move(options)));
  HP_RETURN_IF_ERROR(compute->Allocate());
  return std::unique_ptr<Compute>(std::move(compute));
}

Device::Mark HostCompute::Enqueue(const Task& task, const std::function<void()>* between_layers) {
  const std::function<void()>* const outer = std::exchange(between_layers_, between_layers);
  Carry(task);
  between_layers_ = outer;
  return {};
}

Compute::Work HostCompute::ReadyWork(const Task& task) const {
  Work work = WorkOf(task);
  const HostInputs inputs = InputsOf(work);
  work.run.between_layers = between_layers_;
  work.run.images = inputs.images;
  work.run.batch.SetBatchLabels(inputs.batch_labels);
  if (!inputs.batch_labels.empty()) {
    work.run.batch.labels = inputs.batch_labels.subspan(inputs.first_row, work.net.rows());
  }
  const std::span<const float> behind = work.net.LabelsBehind(inputs.images);
  if (!behind.empty()) work.run.batch.labels = behind;
  return work;
}

void HostCompute::Forward(const Task& task) {
  const Work work = ReadyWork(task);
  if (work.net.plan().draws_sample(task.segment)) sampler_->Draw(task.id);
  work.net.Forward(task.segment, work.run);
}

void HostCompute::Backward(const Task& task) { RunBackward(ReadyWork(task)); }

void HostCompute::WeightGradient(const Task& task) {
  const Work work = ReadyWork(task);
  for (const NetStep* step : model_.StepsOf(work.net, task.group)) work.net.WeightGradient(*step, work.run);
}

float HostCompute::Statistic(const Task& task, const NodeNet& net, int index) const {
  return net.ValueOf(net.outputs()[index].tensor, workspace_->RunOf(task.solver, task.id)).floats()[0];
}

}  // namespace hp
