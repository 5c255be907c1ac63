#pragma once

#include "engine/compute.h"
#include "engine/host_bridge.h"
#include "engine/images_ahead.h"
#include "engine/port_staging.h"

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace hp {

/// Compute on a device with memory of its own, a GPU: a task is put into its queues with the copies that it needs, and
/// is done when its mark is reached.
class DeviceCompute : public Compute {
 public:
  /// @return as Compute::Create, also where the host has not that much memory.
  static StatusOr<std::unique_ptr<Compute>> Create(const NodeModel& model, Options options);

  std::vector<std::span<std::byte>> shared_device_memory() const override;
  std::span<std::byte> shared_host_memory() const override { return staging_->memory(); }
  std::span<std::byte> Place(int solver, MsgId id, int port) const override;
  Device::Mark Enqueue(const Task& task) override;

 private:
  enum RepeatKind : uint64_t { kRepeatForward, kRepeatBackward, kRepeatWeights };

  DeviceCompute(const NodeModel& model, Options options) : Compute(model, std::move(options)) {}
  Status AllocateBridges();
  /// Before a forward task: what it reads from the host.
  void BringInputs(Work* work);
  Device::RepeatKey KeyOf(RepeatKind kind, int part, const Work& work) const;
  void Forward(const Task& task) override;
  void Backward(const Task& task) override;
  void WeightGradient(const Task& task) override;
  float Statistic(const Task& task, const NodeNet& net, int index) const override;

  std::unique_ptr<HostBridge> bridge_;
  std::unique_ptr<PortStaging> staging_;
  std::unique_ptr<ImagesAhead> ahead_;  // null where no images are read
};

}  // namespace hp
