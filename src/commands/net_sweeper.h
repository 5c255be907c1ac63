#pragma once

#include "backend/backend.h"
#include "engine/host_bridge.h"
#include "hp/status.h"
#include "net/node_net.h"
#include "scheduler/planner/layer_time.h"
#include "tensor/buffer.h"
#include "tensor/device.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace hp {

/// The parameters of a net and their gradients, in a device's memory, with random values.
class SweepParameters {
 public:
  /// @param device must outlive them.
  /// @return kInvalidArgument: they need more memory than the host has free; kResourceExhausted: the device is out of
  /// memory; kInternal: it failed.
  static StatusOr<SweepParameters> Create(const NodePlan& plan, Device* device);

  const std::vector<ParamView>& views() const { return views_; }       ///< by NodePlan::params()
  const std::vector<float*>& gradients() const { return gradients_; }  ///< likewise

 private:
  SweepParameters() = default;

  std::vector<ParamView> views_;
  std::vector<float*> gradients_;
  std::vector<Buffer> memory_;
  std::vector<std::unique_ptr<PackedParams>> packed_;
};

/// A node's net on one device, whose steps are run one by one with random values, to time them. One thread, whose
/// OpenMP team computes where the device is the host.
class NetSweeper {
 public:
  /// @param plan of a node that has all layers of the net; its graph and placement must outlive the sweeper, as device,
  /// backend and parameters. @param rows of each sweep.
  /// @return kInvalidArgument: it needs more memory than the host has free; kResourceExhausted: the device is out of
  /// memory; errors of NodeNet::Create.
  static StatusOr<std::unique_ptr<NetSweeper>> Create(const NodePlan& plan, Device* device, Backend* backend,
                                                      int64_t rows, const SweepParameters& parameters);

  /// Runs the forward passes of all steps, and then backwards what they have of the others, in the order of training:
  /// what a step reads is there. The first sweep packs weights and warms caches. A pass is over when the device has
  /// done its work, so on a GPU its seconds have a launch and a wait in them.
  /// @param on_pass called after each pass of each step with its seconds; may be null. @return kInternal: the device
  /// failed.
  using OnPass = std::function<void(const NetStep& step, Pass pass, double seconds)>;
  Status Sweep(const OnPass& on_pass);

 private:
  explicit NetSweeper(Device* device) : device_(device) {}
  Status Allocate(int64_t rows);
  Status BringInputs();

  Device* const device_;
  std::unique_ptr<NodeNet> net_;
  Buffer arena_, scratch_, images_;
  std::vector<float> labels_;
  std::unique_ptr<HostBridge> bridge_;  // null on the host's device
  NetRun run_;
};

}  // namespace hp
