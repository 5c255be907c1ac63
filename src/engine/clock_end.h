#pragma once

#include "engine/compute.h"
#include "input/inputs.h"
#include "input/label_store.h"
#include "model/node_model.h"
#include "scheduler/control/boundary_requests.h"
#include "scheduler/pipeline/pipeline.h"
#include "snapshot/pull_server.h"
#include "snapshot/snapshotter.h"
#include "solvers/learning_rates.h"

#include <atomic>
#include <functional>

namespace google::protobuf {
class MessageLite;
}

namespace hp {

/// The agreement of all nodes at the end of each clock. Every node sends its report of iteration t to the first node;
/// when that has all reports of t, it sends its verdict (go, scale, skip or stop) to all. What a verdict of t asks for,
/// stop, snapshot or pull, each node carries out at the boundary in front of clock t + BoundaryRequests::delay(). One
/// per node, owned by it; has no state and no thread of its own.
class ClockEnd {
 public:
  /// All must be set and outlive this, but for what may be null.
  struct Options {
    const NodeModel* model = nullptr;
    const caffe::SolverParameter* solver = nullptr;  ///< of the job; its snapshot fields are read
    Inputs* inputs = nullptr;                        ///< prepared
    int64_t start_clock = 0;                         ///< first iteration of this run: > 0 if it resumes
    BoundaryRequests* requests = nullptr;            ///< of this node; on the first one it merges the reports
    Compute* compute = nullptr;
    LabelStore* labels = nullptr;
    Snapshotter* snapshotter = nullptr;
    Pipeline* pipeline = nullptr;
    PullServer* pulls = nullptr;  ///< on the first node; null elsewhere
    LearningRates* rates = nullptr;
    /// A verdict has the node begin or end its trace, on the executor's thread. Must not block.
    std::function<void(bool on)> on_trace;
    /// Adds to this node's report what it has used since the start of training (AddUse). Null: nothing.
    std::function<void(IterationReport*)> add_use;
    /// On the first node: takes every node's report. Null: nobody wants them.
    std::function<void(Rank from, const IterationReport& report)> on_report;
    /// On the first node: which node it has found to be slow since the last call, if any. It goes with the next
    /// verdict. Null: it looks for none.
    std::function<std::optional<SlowNode>()> take_slow;
    /// A verdict says that all others wait for a node, this one or another. Must not block.
    std::function<void(const SlowNode&)> on_slow;
    /// Sends a message to another node: `type` as in scheduler/control/messages.h. Must not block. It has no result: a
    /// lost peer is the failure detector's business.
    std::function<void(Rank to, uint32_t type, const google::protobuf::MessageLite& message)> send;
    /// A verdict ends the job, on all nodes alike: kNumeric, with iteration and layer. On the thread of OnVerdict, or
    /// on the first node of OnReport or OnTaskDone. Must not block.
    std::function<void(const Status&)> on_stopped;
  };
  explicit ClockEnd(Options options) : options_(std::move(options)) {}

  /// Whether a verdict has the job stop before its last iteration. Stays true. Any thread.
  bool stops_early() const { return stops_early_; }

  /// After Compute::Collect of every task but kBoundary, and before Pipeline::Done. Sends this node's report if the
  /// task completes it: kNorm where updates wait for the verdict, kFinishClock elsewhere. Executor's thread, or
  /// "completion".
  void OnTaskDone(const Task& task);
  /// Whether the snapshotter has room for the copy that Boundary(clock) makes; true if it makes none. When it is false,
  /// Snapshotter::Options::on_room says that it may have become true. Any thread, also under the pipeline's lock: quick
  /// and does not call the pipeline.
  bool BoundaryReady(int64_t clock) const;
  /// PipelineHost::NeedsOwnVersion: for a test, and for a snapshot, whose name says how many updates it has seen. Not
  /// for a pull, which gets what the iteration computes with. As BoundaryReady.
  bool NeedsOwnVersion(int64_t clock) const;
  /// PipelineHost::BoundaryNeedsDone: where Boundary(clock) copies parameters, which all updates before must have
  /// changed, or has readers start a test again, whose images of earlier clocks no task may be reading. As
  /// BoundaryReady.
  bool BoundaryNeedsDone(int64_t clock) const;
  /// What is done in front of clock task.clock: labels of clocks that have ended are forgotten, the reader of a due
  /// test is started, and parameters of task.version are copied for a snapshot (asked for, or due by the solver's
  /// `snapshot` or `snapshot_after_train`) or a pull. Executor thread, once for each clock in order, where
  /// BoundaryReady(clock); no task may be under way if BoundaryNeedsDone(clock), and of others only what is enqueued.
  /// @return kInternal: the device failed.
  Status Boundary(const Task& task);
  /// On the first node: a report of another node. The last one of a clock makes the verdict, which is sent to all and
  /// handled here as by OnVerdict. Progress thread.
  void OnReport(Rank from, const IterationReport& report);
  /// On other nodes: a verdict of the first one. Gives it to the requests, the updater, the snapshotter and the
  /// pipeline, in this order; a stop on account of numbers goes to on_stopped alone. Progress thread.
  void OnVerdict(const Verdict& verdict);

 private:
  /// What a copy of this node's parameters is for; neither: no copy.
  struct CopyRequest {
    bool files = false, pull = false;
    int64_t start = 0;  // Snapshotter::Begin's
  };
  /// @param request what the verdicts ask for at this boundary.
  CopyRequest CopyAt(int64_t clock, const Verdict& request) const;
  void SendReport(int64_t clock);
  void ChangeRate(int64_t clock, float base_lr);

  const Options options_;
  std::atomic<bool> stops_early_{false};
};

}  // namespace hp
