#pragma once

#include "engine/compute.h"
#include "engine/input/input.h"
#include "engine/input/label_store.h"
#include "engine/snapshot/pull_server.h"
#include "engine/snapshot/snapshotter.h"
#include "model/node_model.h"
#include "scheduler/control/orders.h"
#include "scheduler/pipeline/pipeline.h"

#include <functional>

namespace google::protobuf {
class MessageLite;
}

namespace hp {

/// What all nodes do alike at the end of a clock: each sends its part of the verdict to the first node, which sends the
/// verdict to all; and what verdicts order is begun between two later updates.
class ClockEnd {
 public:
  /// All but what may be null are there, and outlive this.
  struct Options {
    const NodeModel* model = nullptr;
    const caffe::SolverParameter* solver = nullptr;
    Input* test_input = nullptr;  ///< null: this node reads no records of tests
    int64_t start_clock = 0;
    Orders* orders = nullptr;
    Compute* compute = nullptr;
    LabelStore* labels = nullptr;
    Snapshotter* snapshotter = nullptr;
    Pipeline* pipeline = nullptr;
    PullServer* pulls = nullptr;  ///< on the first node
    std::function<void(Rank to, uint32_t type, const google::protobuf::MessageLite& message)> send;
    /// A verdict ends the job. Any thread.
    std::function<void(const Status&)> on_stopped;
  };
  explicit ClockEnd(Options options) : options_(std::move(options)) {}

  /// A task is done; if it was the one that settles this node's part of the verdict, that is sent. Executor, or the
  /// device's completion thread.
  void OnTaskDone(const Task& task);
  /// Whether there is room for what Boundary would copy; the snapshotter's on_room says when there may be. Any thread.
  bool BoundaryReady(int64_t clock) const;
  /// Between two updates, where BoundaryReady: tests begin, snapshots and pulls are copied. Executor.
  Status Boundary(int64_t clock);
  /// From other nodes. Progress thread.
  void OnPart(Rank from, const VerdictPart& part);
  void OnVerdict(const Verdict& verdict);

 private:
  /// A copy of this node's parameters, and what for.
  struct CopyOrder {
    bool files = false, pull = false;
  };
  CopyOrder CopyAt(int64_t clock, const Verdict& order) const;
  void SendPart(int64_t clock);

  const Options options_;
};

}  // namespace hp
