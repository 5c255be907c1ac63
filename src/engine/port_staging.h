#pragma once

#include "hp/status.h"
#include "model/node_model.h"
#include "scheduler/pipeline/pipeline.h"
#include "tensor/device.h"
#include "transport/transport.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace hp {

/// Pinned host memory through which tensors of other nodes pass on their way from and to a device with memory of its
/// own, for peers whose transport does not reach that memory. Each solver has a place in it for each port that is ever
/// staged. A port of a data-parallel stage has a peer for each replica, so whether it is staged depends on the
/// micro-batch. Copies to the device go by Device::kCopyIn, others by kCopyOut. Immutable after Create but for the
/// bytes. Owned by DeviceCompute.
class PortStaging {
 public:
  /// @param device not the host's; it and the model must outlive this.
  /// @param reaches whether the transport brings tensors of this peer to the device's memory and takes them from there.
  /// Called here only, for every rank.
  /// @return kResourceExhausted: the host is out of (pinned) memory.
  static StatusOr<std::unique_ptr<PortStaging>> Create(const NodeModel& model, int pool_size, Device* device,
                                                       const std::function<bool(Rank peer)>& reaches);

  /// Whether the tensor of micro-batch `id` at `port` (index into the phase's ports) passes through here. Any thread.
  bool staged(MsgId id, int port) const {
    return staged_[model_.plan().PeerOf(model_.plan().phase(id).ports[port], id)];
  }
  /// Whether some tensor does not: the transport must know the device's memory then.
  bool any_direct() const { return any_direct_; }
  /// All of the memory, to be registered with the transport; empty where nothing is staged.
  std::span<std::byte> memory() const { return memory_.span(); }
  /// The bytes of a staged port for the transport. Any thread.
  /// @param net that of the micro-batch in `solver`.
  std::span<std::byte> Place(int solver, const NodeNet& net, int port) const;

  /// Before a task's work is put into kCompute: begins to copy the tensors that have arrived for it to the device.
  /// @param gradients those of a backward task; else the activations of a forward task. Executor thread.
  void Bring(const Task& task, const NodeNet& net, const NetRun& run, bool gradients);
  /// After it, behind HostBridge::EndWork: begins to copy the tensors that it made final to the host. Executor thread.
  void Send(const Task& task, const NodeNet& net, const NetRun& run, bool gradients);

 private:
  PortStaging(const NodeModel& model, Device* device) : model_(model), device_(device) {}
  /// What a port's place takes; 0: it is never staged.
  size_t Bytes(const NodeNet& net, int port) const;
  /// The staged ports of a task.
  std::vector<int> PortsOf(const Task& task, const NodeNet& net, bool gradients, bool landing) const;

  const NodeModel& model_;
  Device* const device_;
  std::vector<bool> staged_;  // by rank: tensors from and to it pass through here
  bool any_direct_ = false;
  size_t solver_bytes_ = 0;  // of memory_, for each solver
  Buffer memory_;
};

}  // namespace hp
