#pragma once

#include "hp/status.h"
#include "net/node_net.h"
#include "tensor/device.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace hp {

class NodeModel;

/// What a bridge makes room for.
struct BridgeNeeds {
  std::vector<const NodeNet*> nets;  ///< of all phases and numbers of rows
  size_t solvers = 1;
  int64_t batch_rows = 0;  ///< samples of the largest global batch, whose labels it takes
};
BridgeNeeds BridgeNeedsOf(const NodeModel& model, int pool_size);

/// What passes between the host and a device with memory of its own, for each solver: images, labels, the number of
/// the first sample and the loss scale go in, losses come out. Copies to the device go by Device::kCopyIn, others by
/// kCopyOut. Executor thread, but for what is read when the copies are done. Owned by DeviceCompute.
class HostBridge {
 public:
  /// @return kResourceExhausted: host or device has not so much memory.
  static StatusOr<std::unique_ptr<HostBridge>> Create(const BridgeNeeds& needs, Device* device);
  /// Bytes that Create takes of the device's memory.
  static size_t DeviceBytes(const BridgeNeeds& needs);

  /// Before a forward task of `segment`: what it reads from the host. Sets what `run` says of images and labels.
  /// @param images,labels of the micro-batch in the host's memory; `labels` are those of the whole batch. Null images:
  /// none are read, or they are at images(solver) already.
  void BringInputs(int solver, const NodeNet& net, int segment, const float* images, std::span<const float> labels,
                   int64_t first_row, NetRun* run);
  /// Where a solver's images are on the device.
  float* images(int solver) const { return reinterpret_cast<float*>(block(solver) + layout_.images); }
  /// The same addresses again, for a backward task: they hold what the forward task brought.
  void UseInputs(int solver, const NodeNet& net, NetRun* run) const;
  /// Before a task's work is put into kCompute: it waits for what was put into kCopyIn. After it: kCopyOut waits for
  /// it.
  void BeginWork() { device_->Order(Device::kCopyIn, Device::kCompute); }
  void EndWork() { device_->Order(Device::kCompute, Device::kCopyOut); }

  /// Begins to fetch a net's statistics; statistics() has them when the task is done.
  void FetchStatistics(int solver, const NodeNet& net, const NetRun& run);
  std::span<const float> statistics(int solver) const { return {statistics_.floats() + solver * outputs_, outputs_}; }

 private:
  explicit HostBridge(Device* device) : device_(device) {}
  Status Allocate(const BridgeNeeds& needs);
  std::byte* block(int solver) const { return blocks_.data() + solver * block_bytes_; }

  /// What kernels read of BatchContext.
  struct Numbers {
    uint64_t first_sample;
    float loss_scale;
  };
  /// The block of a solver on the device: [numbers][labels][labels of the batch][images].
  struct Layout {
    size_t labels = 0, batch_labels = 0, images = 0, bytes = 0;
  };
  static Layout LayoutOf(const BridgeNeeds& needs);

  Device* const device_;
  Layout layout_;
  size_t block_bytes_ = 0, outputs_ = 0;
  Buffer blocks_, numbers_;
  Buffer statistics_;
};

}  // namespace hp
