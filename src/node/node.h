#pragma once

#include "base/clock.h"
#include "base/thread.h"
#include "engine/clock_end.h"
#include "engine/compute.h"
#include "engine/executor.h"
#include "engine/memory_fit.h"
#include "hp/status.h"
#include "input/label_feed.h"
#include "input/label_store.h"
#include "layers/op_factories.h"
#include "layers/traits/layer_types.h"
#include "model/node_model.h"
#include "node/inbox.h"
#include "node/job_files.h"
#include "node/make_transport.h"
#include "node/node_exchanges.h"
#include "node/node_transport.h"
#include "node/rendezvous.h"
#include "report/gauge.h"
#include "report/job_gauge.h"
#include "report/metrics.h"
#include "report/node_trace.h"
#include "report/reporter.h"
#include "report/status_board.h"
#include "report/stop_budget.h"
#include "scheduler/control/boundary_requests.h"
#include "scheduler/control/client_desk.h"
#include "scheduler/control/failure_detector.h"
#include "scheduler/control/gate.h"
#include "scheduler/control/job_bootstrap.h"
#include "scheduler/control/shutdown.h"
#include "scheduler/pipeline/pipeline.h"
#include "scheduler/plan/routing_table.h"
#include "snapshot/pull_server.h"
#include "snapshot/snapshot_transfer.h"
#include "snapshot/snapshotter.h"
#include "solvers/param_store.h"
#include "transport/transport.h"

#include "devices/devices.h"
#include "devices/engine_file.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hp {

/// What tells a run, through all its starts, from others that might write the same snapshots.
struct RunName {
  std::string name;        ///< "Slurm job 12"; empty: nobody said
  bool restarted = false;  ///< this is not its first start
};

/// Which node of which job, how it starts, and whom it reports to.
struct NodeOptions {
  const RoutingTable* table = nullptr;   ///< must outlive the node
  Rank rank = 0;                         ///< which entry of the table the node is
  std::unique_ptr<Transport> transport;  ///< of this rank, not started; the node starts and stops it
  /// A .solverstate to continue from, the same file on every node (compared at the handshake); kResumeLatest: the
  /// newest snapshot of this job that any node has; empty: start afresh.
  std::string resume;
  /// .caffemodels to take initial weights from, layer by layer by name, a later one over an earlier one, separated by
  /// commas; empty: what the solver's `weights` say. The same files on every node (compared at the handshake). Not read
  /// with `resume`.
  std::string weights;
  RunName run_name;
  std::string snapshot_prefix;         ///< instead of the solver's; empty: the solver's
  int keep_snapshots = 0;              ///< SnapshotWriter::Options::keep; read on the first node
  std::string cache_dir;               ///< DatasetOptions::cache_dir
  int64_t max_bad_records = 0;         ///< InputOptions
  int reader_threads = 1;              ///< for each phase, on nodes that read records; at least 1
  const Clock* clock = Clock::Real();  ///< for failure detection and the log; must outlive the node
  /// The layers that the net may have; both must outlive the node. A program may add its own (LayerTypes::With).
  const LayerTypes* layer_types = &LayerTypes::BuiltIn();
  const OpFactories* op_factories = &OpFactories::BuiltIn();
  /// Opens the device by the name that the table gives it; tests have devices of their own.
  std::function<StatusOr<NodeDevice>(const std::string& name, Precision precision, EngineChoices* engines)>
      open_device = OpenNodeDevice;
  /// All nodes are in this process, and the transport copies from one to the other: on processors nothing else does.
  bool one_process = false;
  size_t least_host_copy = kLeastHostCopy;  ///< for MakeCopyTransport
  /// What a stop by request may take before the process ends itself, in s, for a warning; 0: as long as it takes.
  int stop_within_s = 0;
  /// Called with the reason when the node can't continue while threads of it may be blocked for good, in a collective
  /// or a system call: a process ends itself here (_exit). Any thread, under no lock. Null, or one that returns, for
  /// several nodes in one process: the node unwinds and Run returns the reason.
  std::function<void(const Status&)> leave;
  /// Training losses, on the node with the reporter (JobPlan::reporter); not called on others. May be null.
  Reporter::LossSink on_loss;
  /// NodeTrace writes a file there, from the start on; empty: none until an order (hpctl trace on), which goes to
  /// PREFIX_trace beside the snapshots.
  std::string trace_folder;
  /// CurveFile of the job, on the node with the reporter alone; empty: none.
  std::string csv;
  /// EventFile of the job in this folder, on the same node; empty: none.
  std::string tensorboard;
  std::function<void(const Task&)> before_task;  ///< Executor::Options::before_task; may be null
  /// With the final parameters, on the thread of Run, when all nodes have ended the job without a failure. May be null.
  std::function<void(const ParamStore&)> on_done;
};

/// One node of a job. Assembles the parts, in the order of Open and Run, and routes what the transport reports to them;
/// each part does its own work:
///   Input (records) -> Pipeline (order of work) -> Compute (segments, updates) -> Transport (tensors)
///   JobBootstrap and FailureDetector (who is there), ClockEnd and Snapshotter (what concerns all nodes at once),
///   Reporter (Caffe's log lines), Shutdown (why it ends, and that others hear of it).
///
/// Use:
///   Node node(std::move(options));
///   Status status = node.Open();           // ReadFiles
///   if (status.ok()) status = node.Run();  // blocks until the job has ended
///   return ExitStatus(status);
///
/// Open, Run and Stop one after the other, from any thread; the requests, training() and reporter() from any thread,
/// until the node is destroyed. src/node/README.md has the steps of the assembly, all threads and the locks.
class Node : private TransportHandler, private PipelineHost {
 public:
  /// Starts nothing.
  explicit Node(NodeOptions options);
  /// Stops.
  ~Node() override;

  /// Reads the job's files (JobFiles) and opens the device, without any connection. Once, before Run.
  /// @return ok, or the first fault of files or device, which is logged: kNotFound, kInvalidArgument, kDataLoss,
  /// kFailedPrecondition, kResourceExhausted.
  Status Open();
  /// Connects to all nodes of the table, trains to the last iteration, and ends the job together with the others.
  /// Blocks all the while. Sets the size of the calling thread's OpenMP team. Once, after Open returned ok.
  /// @return ok; kStopped: a node was asked to stop before the last iteration, and the job can be resumed; or the first
  /// reason why not, which is logged (ExitStatus has the process's exit status):
  /// kUnavailable, kDeadlineExceeded: another node was lost or did not appear; kNumeric: numbers are not finite;
  /// kFailedPrecondition: nodes do not fit together; kInvalidArgument: net, table or labels; kInternal: a device
  /// failed, or the last snapshot was not written; kResourceExhausted: out of memory, on a device or the host, or no
  /// thread to be had.
  Status Run();
  /// Ends its threads and its connections; Run must have returned, or not begun. May be called again. The destructor
  /// does it too, but nodes of one process whose GPUs copy into each other's memory must all have stopped before the
  /// first of them is destroyed and frees its memory.
  void Stop();

  /// Asks all nodes of the job to stop at the same boundary, two iterations (and the staleness) after this node's
  /// next report, with a snapshot. Run returns kStopped then, or ok if that was the last iteration. Before training()
  /// the job ends at once, on all nodes that are connected; Run returns kStopped.
  /// @return false: Run has not begun to connect, so nobody has to hear of it, and the process may just end.
  bool RequestStop();
  /// Asks all nodes for a snapshot at such a boundary; training goes on.
  void RequestSnapshot() { requests_.RequestSnapshot(); }
  /// Whether training has begun, so that requests are carried out; stays true.
  bool training() const { return training_; }
  /// Iterations that have ended on this node, in this run; 0 before training().
  int64_t iterations_done() const { return training_ ? pipeline_->clocks_done() : 0; }
  /// Ends the job at once, for all nodes (Shutdown::Fail). After RequestStop returned true.
  void Fail(const Status& status) { shutdown_.Fail(status); }
  /// What Prometheus is told of this node.
  NodeMetrics metrics() const;
  /// How far training is, for a progress display; null before the model is built, and on nodes without the reporter.
  /// Lives as long as the node.
  const Reporter* reporter() const { return reporter_ready_ ? reporter_.get() : nullptr; }

 private:
  // The steps of Open and Run, in their order; src/node/README.md says what each makes.
  Status ReadFiles();
  Status Connect();
  Status ChooseSnapshot();
  Status BuildModel();
  StatusOr<std::shared_ptr<const JobPlan>> PlanJob() const;
  Status MakeReporter();
  Status OpenCurves();
  Status InitParams();
  /// Gives nodes that lack the snapshot their part, or takes ours from one that has it. Does nothing where all have it.
  Status ShareSnapshot();
  Status ConnectExchanges();
  Status PrepareInputs();
  Status MakeCompute();
  /// Keeps which engines of the GPU were chosen in this start. After the last op is made.
  Status KeepEngines();
  Status MakeSnapshotter();
  /// Options of a node that writes snapshots, with the right to write them.
  StatusOr<SnapshotWriter::Options> SnapshotFiles();
  /// @return kFailedPrecondition: another run has them.
  Status ClaimSnapshots(SnapshotWriter::Options* options);
  /// Whether this node has the first node's folder, so that it can write its part of snapshots there and need not copy
  /// them.
  bool SharesFolder() const;
  Status Train();
  void MakeClockEnd();
  void MakeDesk();
  /// What the other nodes and hpctl want to know of this one.
  void AddToReport(IterationReport* report);
  Status Finish();
  void LogPayload() const;
  NodeUse Use() const;

  /// Wakes whatever waits for other nodes. Any thread; may be called again.
  void Abort(const Status& status);
  /// On a thread of an exchange.
  void OnExchangeFailed(const Status& status);
  /// Reader threads.
  void OnLabels(int64_t clock, Phase phase, const BatchLabels& labels);
  /// To the reporter, here or on its node. On the thread of Compute::Collect.
  void OnStatistics(MsgId id, int stage, const std::vector<float>& values);
  void OnSlow(const SlowNode& slow);
  /// Threads that a node computes with: the snapshot's where it was written under the same division of the work, else
  /// the table's or its share of its host's cores.
  int ThreadsOf(Rank rank) const;
  /// Sets the size of the calling thread's OpenMP team. @return kFailedPrecondition: OMP_THREAD_LIMIT is lower.
  Status TakeThreads(int threads) const;
  /// Decides in what the job's products are computed, and makes the backend if that waited for it.
  /// @return kInvalidArgument: the device cannot.
  Status TakePrecision(const JobPlan& job);
  /// Progress thread, on the first node.
  void OnCopied(const SnapshotCopied& copied);
  /// Errors are logged: a lost peer is the failure detector's business. Never blocks.
  void Send(Rank rank, uint32_t type, const google::protobuf::MessageLite& message);

  // TransportHandler: progress thread. Slices of snapshots go to the snapshotter, tensors to the pipeline.
  void OnConnected(Rank peer) override;
  void OnConnectFailed(Rank peer, const Status& status) override;
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) override;
  void OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) override;
  void OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) override;
  void OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) override;
  void OnClosed(Rank peer, const Status& status) override;
  void OnOutOfMemory(const Status& status) override { shutdown_.Fail(status); }
  // PipelineHost: under the pipeline's lock, must not call it back.
  std::span<std::byte> Place(int solver, MsgId id, int port) override { return compute_->Place(solver, id, port); }
  bool BoundaryReady(int64_t clock) override { return clock_end_->BoundaryReady(clock); }
  bool NeedsOwnVersion(int64_t clock) override { return clock_end_->NeedsOwnVersion(clock); }
  bool BoundaryNeedsDone(int64_t clock) override { return clock_end_->BoundaryNeedsDone(clock); }
  bool InputsReady(MsgId id, int segment) override;
  void Freed(int solver, MsgId id) override;
  void Waited(Wait wait, int64_t begin_ns, int64_t end_ns) override { trace_->OnWait(wait, begin_ns, end_ns); }

  NodeOptions options_;
  const RoutingTable& table_;
  const NodeInfo& info_;  // our entry
  Transport* transport_;  // options_.transport; once connected what is around it: node_transport_

  // A part lies below those that it uses to its end: it is destroyed before them, after Stop has ended all threads.
  std::unique_ptr<EngineFile> engines_;            // null: the table has none timed, or not on this device
  NodeDevice device_;                              // before all that has memory of it
  std::unique_ptr<NodeTrace> trace_;               // maybe off
  std::unique_ptr<CopyTransport> copies_;          // around options_.transport; null: no tensors are copied
  std::unique_ptr<NodeTransport> node_transport_;  // around that
  JobFiles files_;
  uint64_t seed_ = 0;                               // of the job
  Precision precision_ = RoutingTableConfig::AUTO;  // of the job; AUTO: not decided
  int64_t start_number_ = 0;                        // of the job's starts, on the first node; 0: it writes no snapshots
  bool shares_folder_ = false;
  Gate gate_;  // holds events back until Train
  Shutdown shutdown_;
  std::unique_ptr<JobBootstrap> bootstrap_;
  std::unique_ptr<FailureDetector> failure_detector_;
  std::unique_ptr<NodeRendezvous> rendezvous_;
  std::unique_ptr<SnapshotTransfer> transfer_;
  std::optional<LatestSnapshot> latest_;  // resumed from; nothing: another way to start
  std::unique_ptr<PullServer> pulls_;     // on the first node, as are the next two
  std::unique_ptr<StatusBoard> board_;
  std::unique_ptr<ClientDesk> desk_;
  std::unique_ptr<Inbox> inbox_;
  std::unique_ptr<NodeModel> model_;
  NodeMemory memory_;  // what FitMemory chose
  std::unique_ptr<ParamStore> params_;
  std::unique_ptr<LabelStore> labels_;
  std::unique_ptr<LabelFeed> label_feed_;
  std::unique_ptr<Compute> compute_;
  std::unique_ptr<CurveFile> curves_;   // null: another node reports, or nobody wants them
  std::unique_ptr<EventFile> events_;   // likewise
  std::unique_ptr<Reporter> reporter_;  // null: another node reports
  std::atomic<bool> reporter_ready_{false}, connecting_{false}, training_{false};
  std::unique_ptr<Snapshotter> snapshotter_;
  BoundaryRequests requests_;
  std::unique_ptr<Pipeline> pipeline_;
  NodeExchanges exchanges_;
  std::unique_ptr<ClockEnd> clock_end_;
  std::unique_ptr<NodeGauge> gauge_;
  int64_t begun_ns_ = 0, status_ns_ = 0;  // when training began; when this node last told its status
  int64_t lines_sent_ = 0;                // of the log, with the status
  std::unique_ptr<JobGauge> job_gauge_;   // on the first node
  StopBudget stop_budget_;
  std::vector<std::unique_ptr<MemoryRegion>> regions_;  // compute_'s memory, registered with transport_
  std::unique_ptr<Executor> executor_;
};

}  // namespace hp
