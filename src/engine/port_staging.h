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

/// Tensors of other nodes on their way from and to a device with memory of its own: those of peers whose transport does
/// not reach that memory pass through the host's, of which each solver has some. A port of a stage of replicas has a
/// peer for each, so it depends on the micro-batch. Copies to the device go by Device::kCopyIn, others by kCopyOut.
/// Owned by DeviceCompute.
class PortStaging {
 public:
  /// @param reaches whether the transport brings tensors of this peer to the device's memory and takes them from there.
  /// @return kResourceExhausted: the host has not so much memory.
  static StatusOr<std::unique_ptr<PortStaging>> Create(const NodeModel& model, int pool_size, Device* device,
                                                       const std::function<bool(Rank peer)>& reaches);

  /// Whether micro-batch `id` passes through here at `port` (index into the phase's ports). Any thread.
  bool staged(MsgId id, int port) const { return staged_[plan(id.train()).ports[port].peer(id.replica())]; }
  /// Whether some tensor does not.
  bool any_direct() const { return any_direct_; }
  /// All of the host's memory that a transport reads and writes; empty where nothing is staged.
  std::span<std::byte> memory() const { return memory_.span(); }
  /// Where a port's bytes are for the transport, if staged. Any thread.
  std::span<std::byte> Place(int solver, MsgId id, const NodeNet& net, int port) const;

  /// Before a task: tensors that have arrived for it. After it: those that are final now. Executor thread.
  void Bring(const Task& task, const NodeNet& net, const NetRun& run, bool gradients);
  void Send(const Task& task, const NodeNet& net, const NetRun& run, bool gradients);

 private:
  PortStaging(const NodeModel& model, Device* device) : model_(model), device_(device) {}
  const PhasePlan& plan(bool train) const { return train ? model_.plan().train : model_.plan().test; }
  size_t Bytes(const NodeNet& net, bool train, int port) const;
  /// The ports of a task that are staged.
  std::vector<int> PortsOf(const Task& task, const NodeNet& net, bool gradients, bool landing) const;

  const NodeModel& model_;
  Device* const device_;
  std::vector<bool> staged_;  // by rank
  bool any_direct_ = false;
  size_t solver_bytes_ = 0;
  Buffer memory_;
};

}  // namespace hp
