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
  size_t solvers = 1;                ///< whose memory micro-batches use
  size_t tasks = 1;                  ///< forward tasks that may be put into the queues and not be done, at the most
  int64_t batch_rows = 0;            ///< samples of the largest global batch
  int64_t label_numbers = 1;         ///< of each of them (NodePlan::label_numbers)
  bool raw = false;                  ///< images may come raw
};
/// The needs of a node with `pool_size` solvers.
BridgeNeeds BridgeNeedsOf(const NodeModel& model, int pool_size);

/// Copies inputs and losses between the host and a device with memory of its own. Each solver has a block of device
/// memory, at a fixed address, for the images and labels of its micro-batch, the number of its first sample and the
/// loss scale: fixed, because captured work is replayed with the same addresses (Device::RunCaptured). What passes
/// through pinned host memory, labels and statistics, has room there for each task that may be under way. Copies to the
/// device go by Device::kCopyIn, statistics by kCompute. Executor thread, except statistics(). Owned by DeviceCompute,
/// or by an evaluation.
///
/// Use, for a forward task:
///   if (tasks of the solver may not be done) device->Order(Device::kCompute, Device::kCopyIn);
///   bridge->BringInputs(solver, net, segment, images, labels, first_row, &run);
///   bridge->BeginWork();
///   net.Forward(segment, run);                      // kCompute
///   int64_t n = bridge->FetchStatistics(net, run);  // statistics(n), when kCompute is done
///   bridge->EndWork();
class HostBridge {
 public:
  /// @param device not the host's; must outlive the bridge. The nets are not kept.
  /// @return kResourceExhausted: host or device is out of memory.
  static StatusOr<std::unique_ptr<HostBridge>> Create(const BridgeNeeds& needs, Device* device);
  /// Bytes that Create takes of the device's memory.
  static size_t DeviceBytes(const BridgeNeeds& needs);

  /// Before a forward task of `segment`: begins to copy what it reads, and points run->images and run->batch at it. The
  /// task before the last `tasks` ones is done.
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
  /// A solver's raw images on the device, of which the caller, or the net, makes what is read; with BridgeNeeds::raw.
  std::byte* raw(int solver) const { return block(solver) + layout_.raw; }
  /// Points `run` at a solver's inputs without a copy, for a backward or weight gradient task: they hold what its
  /// forward tasks brought.
  void UseInputs(int solver, const NodeNet& net, NetRun* run) const;
  /// Before work is put into kCompute: makes it wait for what kCopyIn holds.
  void BeginWork() { device_->Order(Device::kCopyIn, Device::kCompute); }
  /// After work was put into kCompute: makes later copies in kCopyOut wait for it.
  void EndWork() { device_->Order(Device::kCompute, Device::kCopyOut); }

  /// Begins to fetch all outputs of the net, by kCompute: what follows there may use their memory for something else.
  /// @return how many calls there were before.
  int64_t FetchStatistics(const NodeNet& net, const NetRun& run);
  /// What call `number` of FetchStatistics has fetched, by output of its net; later entries belong to nets with more
  /// outputs. Any thread, once the copies are done, and until `tasks` calls later.
  std::span<const float> statistics(int64_t number) const {
    return {statistics_.floats() + number % tasks_ * outputs_, outputs_};
  }

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
  int64_t tasks_ = 1;                     // BridgeNeeds::tasks
  int64_t brought_ = 0, fetched_ = 0;     // calls of BringInputs and FetchStatistics: whose turn it is in what follows
  Buffer blocks_;                         // [solvers] in device memory
  Buffer staged_;                         // [tasks_] pinned: what goes to the device in front of the images
  Buffer statistics_;                     // [tasks_, outputs_] float, pinned
};

}  // namespace hp
