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

/// Images of a micro-batch in the host's memory.
struct HostImages {
  const void* data = nullptr;  ///< null: none, or not here
  bool raw = false;            ///< NodeNet::raw_images_bytes(), else images_bytes()
};

/// What a bridge makes room for.
struct BridgeNeeds {
  std::vector<const NodeNet*> nets;  ///< that run through it, of all phases and numbers of rows
  size_t solvers = 1;                ///< micro-batches that may be under way at once
  int64_t batch_rows = 0;            ///< samples of the largest global batch
  int64_t label_numbers = 1;         ///< of each of them (NodePlan::label_numbers)
  bool raw = false;                  ///< images may come raw
};
/// The needs of a node with `pool_size` solvers.
BridgeNeeds BridgeNeedsOf(const NodeModel& model, int pool_size);

/// Copies inputs and losses between the host and a device with memory of its own. Each solver has a block of device
/// memory, at a fixed address, for the images and labels of its micro-batch, the number of its first sample and the
/// loss scale, and pinned host memory for its statistics: fixed, because captured work is replayed with the same
/// addresses (Device::RunCaptured). Copies to the device go by Device::kCopyIn, others by kCopyOut. Executor thread,
/// except statistics(). Owned by DeviceCompute, or by an evaluation.
///
/// Use, for a forward task:
///   bridge->BringInputs(solver, net, segment, images, labels, first_row, &run);
///   bridge->BeginWork();
///   net.Forward(segment, run);                      // kCompute
///   bridge->EndWork();
///   bridge->FetchStatistics(solver, net, run);      // statistics(solver), when kCopyOut is done
class HostBridge {
 public:
  /// @param device not the host's; must outlive the bridge. The nets are not kept.
  /// @return kResourceExhausted: host or device is out of memory.
  static StatusOr<std::unique_ptr<HostBridge>> Create(const BridgeNeeds& needs, Device* device);
  /// Bytes that Create takes of the device's memory.
  static size_t DeviceBytes(const BridgeNeeds& needs);

  /// Before a forward task of `segment`: begins to copy what it reads, and points run->images and run->batch at it.
  /// run->batch.first_sample, loss_scale and global_rows must be set. The sources must stay unmodified until the task
  /// is done.
  /// @param images of the micro-batch, which go to images(solver) or raw(solver); none: the segment reads none, or they
  /// are put there otherwise.
  /// @param labels of the whole batch, for BatchContext::SetBatchLabels, in the host's memory; may be empty if the
  /// segment reads none.
  /// @param first_row of the micro-batch within the batch.
  void BringInputs(int solver, const NodeNet& net, int segment, const HostImages& images, std::span<const float> labels,
                   int64_t first_row, NetRun* run);
  /// A solver's images on the device.
  float* images(int solver) const { return reinterpret_cast<float*>(block(solver) + layout_.images); }
  /// A solver's raw images on the device, of which the caller makes images(solver); with BridgeNeeds::raw.
  std::byte* raw(int solver) const { return block(solver) + layout_.raw; }
  /// Points `run` at a solver's inputs without a copy, for a backward or weight gradient task: they hold what its
  /// forward tasks brought.
  void UseInputs(int solver, const NodeNet& net, NetRun* run) const;
  /// Before work is put into kCompute: makes it wait for what kCopyIn holds.
  void BeginWork() { device_->Order(Device::kCopyIn, Device::kCompute); }
  /// After work was put into kCompute: makes later copies in kCopyOut wait for it.
  void EndWork() { device_->Order(Device::kCompute, Device::kCopyOut); }

  /// Begins to fetch all outputs of the net.
  void FetchStatistics(int solver, const NodeNet& net, const NetRun& run);
  /// What was fetched last for the solver, by output of its net; later entries belong to nets with more outputs. Any
  /// thread, once the copies are done and before the solver's next FetchStatistics.
  std::span<const float> statistics(int solver) const { return {statistics_.floats() + solver * outputs_, outputs_}; }

 private:
  explicit HostBridge(Device* device) : device_(device) {}
  Status Allocate(const BridgeNeeds& needs);
  std::byte* block(int solver) const { return blocks_.data() + solver * block_bytes_; }

  /// What kernels read of BatchContext in device memory.
  struct Numbers {
    uint64_t first_sample;
    float loss_scale;
  };
  /// Byte offsets in the block of a solver on the device: [numbers][labels][labels of the batch][images]
  /// [raw images].
  struct Layout {
    size_t labels = 0, batch_labels = 0, images = 0, raw = 0, bytes = 0;
  };
  static Layout LayoutOf(const BridgeNeeds& needs);

  Device* const device_;
  Layout layout_;
  size_t block_bytes_ = 0, outputs_ = 0;  // of one solver; the most outputs of a net
  Buffer blocks_, staged_;                // by solver: device memory; pinned, what goes there in front of the images
  Buffer statistics_;                     // [solvers, outputs_] float, pinned
};

}  // namespace hp
