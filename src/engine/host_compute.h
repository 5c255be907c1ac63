#pragma once

#include "engine/compute.h"

#include <functional>
#include <memory>
#include <utility>

namespace hp {

/// Compute on the host's processors, without copies: images and labels are read in the memory of Input and LabelStore,
/// tensors of other nodes arrive in the solvers' memory. A task is done when Enqueue returns. Made by Compute::Create.
class HostCompute : public Compute {
 public:
  /// Parameters and errors as Compute::Create.
  static StatusOr<std::unique_ptr<Compute>> Create(const NodeModel& model, Options options);

  /// Computes with the OpenMP team of the calling thread, whose size decides the bits of sums. @return 0, no mark.
  Device::Mark Enqueue(const Task& task, const std::function<void()>* between_layers) override;

 private:
  HostCompute(const NodeModel& model, Options options) : Compute(model, std::move(options)) {}
  /// WorkOf with images and labels.
  Work ReadyWork(const Task& task) const;
  void Forward(const Task& task) override;
  void Backward(const Task& task) override;
  void WeightGradient(const Task& task) override;
  float Statistic(const Task& task, const NodeNet& net, int index) const override;

  const std::function<void()>* between_layers_ = nullptr;  // of the task that is being computed
};

}  // namespace hp
