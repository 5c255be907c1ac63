#pragma once

#include "base/clock.h"
#include "base/thread.h"
#include "engine/clock_end.h"
#include "engine/compute.h"
#include "engine/executor.h"
#include "engine/input/label_feed.h"
#include "engine/input/label_store.h"
#include "engine/memory_fit.h"
#include "engine/snapshot/pull_server.h"
#include "engine/snapshot/snapshotter.h"
#include "engine/stage_exchange.h"
#include "hp/status.h"
#include "layers/op_factories.h"
#include "layers/traits/layer_types.h"
#include "model/node_model.h"
#include "node/devices.h"
#include "node/job_files.h"
#include "node/make_transport.h"
#include "node/rendezvous.h"
#include "report/input_wait_log.h"
#include "report/reporter.h"
#include "scheduler/control/failure_detector.h"
#include "scheduler/control/gate.h"
#include "scheduler/control/job_bootstrap.h"
#include "scheduler/control/orders.h"
#include "scheduler/control/shutdown.h"
#include "scheduler/pipeline/pipeline.h"
#include "scheduler/plan/routing_table.h"
#include "solvers/exchange/exchange.h"
#include "solvers/param_store.h"
#include "transport/transport.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hp {

struct NodeOptions {
  const RoutingTable* table = nullptr;  ///< must outlive the node
  Rank rank = 0;
  std::unique_ptr<Transport> transport;
  std::string resume;     ///< a .solverstate to go on from; empty: start afresh
  std::string weights;    ///< a .caffemodel to take initial weights from; empty: fillers
  std::string cache_dir;  ///< of record indexes; empty: the user's
  int reader_threads = 1;
  const Clock* clock = Clock::Real();
  /// The layers that the net may have; both must outlive the node. A program may add its own (LayerTypes::With).
  const LayerTypes* layer_types = &LayerTypes::BuiltIn();
  const OpFactories* op_factories = &OpFactories::BuiltIn();
  /// Opens what the node computes on; a test has devices of its own.
  std::function<StatusOr<NodeDevice>(const std::string& name, Precision precision)> open_device = OpenNodeDevice;
  /// Called once with the reason when the node can't go on while others of its threads may be blocked for good: a
  /// process ends itself here. Returns only where the node is to unwind (several nodes in one process).
  std::function<void(const Status&)> leave;
  Reporter::LossSink on_loss;                      ///< on the node that holds the loss
  std::function<void(const Task&)> before_task;    ///< executor thread, before each task: for tests that delay it
  std::function<void(const ParamStore&)> on_done;  ///< after the last update, before the node ends
};

/// One node of a job. Assembles the parts, in the order of Open and Run, and routes what the transport reports to them;
/// each part does its own work:
///   Input (records) -> Pipeline (order of work) -> Compute (segments, updates) -> Transport (tensors)
///   JobBootstrap and FailureDetector (who is there), ClockEnd and Snapshotter (what concerns all nodes at once),
///   Reporter (Caffe's log lines), Shutdown (why it ends, and that others hear of it).
class Node : private TransportHandler, private PipelineHost {
 public:
  explicit Node(NodeOptions options);
  ~Node() override;

  /// Reads the job's files and opens the device; nobody else hears of it. Once, before Run. @return ok, or why not,
  /// which is logged.
  Status Open();
  /// Trains from the first to the last iteration. @return ok, or why not, which is logged (ExitStatus has the
  /// process's exit status).
  Status Run();
  /// Ends its threads and its connections; Run must have returned. The destructor does it too, but nodes of one process
  /// whose GPUs copy into each other's memory all stop before the first of them gives its memory back.
  void Stop();

  /// At the next opportunity that all nodes share: stop (with a snapshot, as Caffe does on SIGINT), or a snapshot.
  /// Async-signal-safe.
  void RequestStop() { orders_.RequestStop(); }
  void RequestSnapshot() { orders_.RequestSnapshot(); }
  /// Whether the job is assembled, so that requests are carried out. Async-signal-safe.
  bool training() const { return training_; }
  /// How far training is, for a progress display; null before the job is assembled, and on nodes without the loss.
  const Reporter* reporter() const { return reporter_ready_ ? reporter_.get() : nullptr; }

 private:
  // In the order of Open and Run.
  Status ReadFiles();
  Status Connect();
  Status BuildModel();
  Status InitParams();
  Status ConnectExchange();
  Status PrepareInputs();
  Status MakeCompute();
  Status MakeSnapshotter();
  /// What the first node writes.
  SnapshotWriter::Options SnapshotFiles() const;
  void Train();
  void MakeClockEnd();
  Status Finish();

  /// Wakes whatever waits for other nodes.
  void Abort(const Status& status);
  void OnExchangeFailed(const Status& status);
  void OnLabels(int64_t clock, bool train, int64_t batch, int64_t first_row, std::span<const float> labels);
  void OnStatistics(MsgId id, const std::vector<float>& values);
  void HandleMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes);
  int ThreadsOf(Rank rank) const;
  Status TakeThreads(int threads) const;
  void Send(Rank rank, uint32_t type, const google::protobuf::MessageLite& message);

  // TransportHandler
  void OnConnected(Rank peer) override;
  void OnConnectFailed(Rank peer, const Status& status) override;
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) override;
  void OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) override;
  void OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) override;
  void OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) override;
  void OnClosed(Rank peer, const Status& status) override;
  // PipelineHost
  std::span<std::byte> Place(int solver, MsgId id, int port) override { return compute_->Place(solver, id, port); }
  bool BoundaryReady(int64_t clock) override { return clock_end_->BoundaryReady(clock); }
  bool InputsReady(MsgId id, int segment) override;
  void Freed(int solver, MsgId id) override;

  NodeOptions options_;
  const RoutingTable& table_;
  const NodeInfo& info_;
  Transport* transport_;

  NodeDevice device_;                      // before all that has memory of it
  std::unique_ptr<CopyTransport> copies_;  // around options_.transport; null: no tensors go from GPU to GPU
  JobFiles files_;
  uint64_t seed_ = 0;
  Gate gate_;
  Shutdown shutdown_;
  std::unique_ptr<JobBootstrap> bootstrap_;
  std::unique_ptr<FailureDetector> failure_detector_;
  std::unique_ptr<NodeModel> model_;
  NodeMemory memory_;
  std::unique_ptr<ParamStore> params_;
  std::unique_ptr<LabelStore> labels_;
  std::unique_ptr<LabelFeed> label_feed_;
  std::unique_ptr<NodeRendezvous> rendezvous_;
  std::unique_ptr<Compute> compute_;
  std::unique_ptr<Reporter> reporter_;
  std::atomic<bool> reporter_ready_{false}, training_{false};
  std::unique_ptr<Snapshotter> snapshotter_;
  std::unique_ptr<PullServer> pulls_;
  Orders orders_;
  std::unique_ptr<Pipeline> pipeline_;
  std::map<int, std::unique_ptr<StageExchange>> exchanges_;  // by stage
  std::unique_ptr<ClockEnd> clock_end_;
  std::unique_ptr<InputWaitLog> input_wait_;  // of nodes that read records
  std::vector<std::unique_ptr<MemoryRegion>> regions_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace hp
