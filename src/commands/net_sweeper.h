#pragma once

#include "backend/backend.h"
#include "hp/status.h"
#include "net/node_net.h"
#include "scheduler/planner/layer_time.h"
#include "tensor/buffer.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace hp {

/// The parameters of a net and their gradients, in the host's memory, with random values.
class SweepParameters {
 public:
  /// @return kInvalidArgument: they need more memory than the host has free; kResourceExhausted: it is out of memory.
  static StatusOr<SweepParameters> Create(const NodePlan& plan);

  const std::vector<ParamView>& views() const { return views_; }       ///< by NodePlan::params()
  const std::vector<float*>& gradients() const { return gradients_; }  ///< likewise

 private:
  SweepParameters() = default;

  std::vector<ParamView> views_;
  std::vector<float*> gradients_;
  std::vector<Buffer> memory_;
  std::vector<std::unique_ptr<PackedParams>> packed_;
};

/// A node's net on this host's processors, whose steps are run one by one with random values, to time them. One thread,
/// whose OpenMP team computes.
class NetSweeper {
 public:
  /// @param plan of a node that has all layers of the net; its graph and placement must outlive the sweeper, as backend
  /// and parameters. @param rows of each sweep.
  /// @return kInvalidArgument: it needs more memory than the host has free; errors of NodeNet::Create.
  static StatusOr<std::unique_ptr<NetSweeper>> Create(const NodePlan& plan, Backend* backend, int64_t rows,
                                                      const SweepParameters& parameters);

  /// Runs the forward passes of all steps, and then backwards what they have of the others, in the order of training:
  /// what a step reads is there. The first sweep packs weights and warms caches.
  /// @param on_pass called after each pass of each step with its seconds; may be null.
  using OnPass = std::function<void(const NetStep& step, Pass pass, double seconds)>;
  void Sweep(const OnPass& on_pass);

 private:
  NetSweeper() = default;

  std::unique_ptr<NodeNet> net_;
  Buffer arena_, scratch_, images_;
  std::vector<float> labels_;
  NetRun run_;
};

}  // namespace hp
