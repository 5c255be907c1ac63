#pragma once

#include "engine/compute.h"
#include "engine/host_bridge.h"
#include "engine/image_expander.h"
#include "engine/input_prefetcher.h"
#include "engine/port_staging.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace hp {

/// Compute on a device with memory of its own, a GPU: a task is put into its queues with the copies that it needs, and
/// is done when its mark is reached. Made by Compute::Create. device_compute.cc begins with how the queues are used.
class DeviceCompute : public Compute {
 public:
  /// Parameters as Compute::Create. Blocks until the device has set its memory up.
  /// @return kResourceExhausted: device or host is out of memory; kInternal: the device failed.
  static StatusOr<std::unique_ptr<Compute>> Create(const NodeModel& model, Options options);

  std::vector<std::span<std::byte>> shared_device_memory() const override;
  std::span<std::byte> shared_host_memory() const override { return staging_->memory(); }
  std::span<std::byte> Place(int solver, MsgId id, int port) const override;
  /// Does not wait for the device, but for a copy from pageable memory of the host, where an input lies there.
  /// @return a mark of kCopyOut, behind everything that belongs to the task.
  Device::Mark Enqueue(const Task& task, const std::function<void()>* between_layers) override;
  void Collect(const Task& task) override;

 private:
  /// What a captured piece of work computes: part of its key.
  enum CaptureKind : uint64_t {
    kCapturedForward,
    kCapturedForwardOfRaw,
    kCapturedBackward,
    kCapturedPiece,
    kCapturedWeights
  };

  DeviceCompute(const NodeModel& model, Options options) : Compute(model, std::move(options)) {}
  Status AllocateBridges();
  /// Whether the device may not be done with a task of the solver that was enqueued before.
  bool InUse(int solver) const { return last_tasks_[static_cast<size_t>(solver)] > collected_; }
  /// Before a forward task: copies in what it reads from the host, and has JPEGs decoded. @return whether these are raw
  /// images.
  bool BringInputs(Work* work);
  /// Names a piece of work by all addresses and flags that its kernels depend on. @param part segment, group, or which
  /// of the net's steps.
  Device::CaptureKey KeyOf(CaptureKind kind, int part, const Work& work) const;
  void Forward(const Task& task) override;
  /// Of raw images on the device.
  void ForwardOfRaw(Work* work);
  void Backward(const Task& task) override;
  /// As RunBackward of a task that gives gradients to exchanges.
  void BackwardInPieces(const Work& work);
  void WeightGradient(const Task& task) override;
  float Statistic(const Task& task, const NodeNet& net, int index) const override;

  std::unique_ptr<HostBridge> bridge_;
  std::unique_ptr<PortStaging> staging_;
  std::unique_ptr<ImageExpander> expander_;
  std::unique_ptr<InputPrefetcher> prefetcher_;  // null where no images are read
  // Executor thread: how many tasks are enqueued; by solver, which was its last one, counted from 1.
  int64_t enqueued_ = 0;
  std::vector<int64_t> last_tasks_;
  std::atomic<int64_t> collected_{0};  // tasks
  int64_t forwards_collected_ = 0;     // forward tasks, before the one that is being collected; thread of Collect
};

}  // namespace hp
