#pragma once

#include "engine/compute.h"

#include <memory>
#include <utility>

namespace hp {

/// Compute on the host's processors: a task is done when Enqueue returns, and everything is read and written where it
/// lies, images and labels in the reader's memory, tensors of other nodes in the solvers'.
class HostCompute : public Compute {
 public:
  /// @return as Compute::Create.
  static StatusOr<std::unique_ptr<Compute>> Create(const NodeModel& model, Options options);

  Device::Mark Enqueue(const Task& task) override;

 private:
  HostCompute(const NodeModel& model, Options options) : Compute(model, std::move(options)) {}
  Work ReadyWork(const Task& task) const;
  void Forward(const Task& task) override;
  void Backward(const Task& task) override;
  void WeightGradient(const Task& task) override;
  float Statistic(const Task& task, const NodeNet& net, int index) const override;
};

}  // namespace hp
