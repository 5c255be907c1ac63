#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "hp/status.h"
#include "node/compute.h"
#include "node/input.h"
#include "node/label_store.h"
#include "node/model.h"
#include "node/pull_server.h"
#include "node/rendezvous.h"
#include "node/reporter.h"
#include "node/snapshotter.h"
#include "node/watch.h"
#include "proto/caffe.pb.h"
#include "scheduler/handshake.h"
#include "scheduler/pipeline.h"
#include "scheduler/routing_table.h"
#include "scheduler/verdict.h"
#include "solvers/exchange/exchange.h"
#include "solvers/param_store.h"
#include "transport/transport.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <set>
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
  /// Called once with the reason when the node can't go on while others of its threads may be blocked for good: a
  /// process ends itself here. Returns only where the node is to unwind (several nodes in one process).
  std::function<void(const Status&)> leave;
  Reporter::LossSink on_loss;                      ///< on the node that holds the loss
  std::function<void(const Task&)> before_task;    ///< executor thread, before each task: for tests that delay it
  std::function<void(const ParamStore&)> on_done;  ///< after the last update, before the node ends
};

/// One node of a job. Assembles the parts, in the order of Run, and routes what the transport reports to them; each
/// part does its own work:
///   Input (records) -> Pipeline (order of work) -> Compute (segments, updates) -> Transport (tensors)
///   Watch (who is there), VerdictKeeper and Snapshotter (what concerns all nodes at once), Reporter (Caffe's log
///   lines).
class Node : private TransportHandler, private PipelineHost {
 public:
  explicit Node(NodeOptions options);
  ~Node() override;

  /// Trains from the first to the last iteration. @return ok, or why not, which is logged (ExitStatus has the
  /// process's exit status).
  Status Run();

  /// At the next opportunity that all nodes share: stop (with a snapshot, as Caffe does on SIGINT), or a snapshot.
  /// Async-signal-safe.
  void RequestStop() { stop_requested_ = true; }
  void RequestSnapshot() { snapshot_requested_ = true; }
  /// How far training is, for a progress display; null before the job is assembled, and on nodes without the loss.
  const Reporter* reporter() const { return reporter_ready_ ? reporter_.get() : nullptr; }

 private:
  // In the order of Run.
  Status LoadFiles();
  Status OpenInputs();
  Status LoadSnapshot();
  Status RequireSavedThreads(const SnapshotManifest& manifest);
  Status Connect();
  void SetApart(const Status& status) HP_REQUIRES(mutex_);
  bool AllTold() const HP_REQUIRES(mutex_);
  Status BuildModel();
  Status InitParams();
  Status ConnectExchange();
  Status PrepareInputs();
  Status RegisterMemory();
  void StartPipeline();
  void Execute();
  Status WaitForEnd();
  Status Finish();

  Status RunTask(const Task& task);
  void Boundary(int64_t clock);
  void SendVerdictPart(int64_t clock);
  void OnVerdictPart(Rank from, const VerdictPart& part);
  void OnVerdict(const Verdict& verdict);
  void OnLabels(int64_t clock, bool train, int64_t batch, int64_t first_row, std::span<const float> labels);
  void OnStatistics(MsgId id, const std::vector<float>& values);
  void HandleMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes);
  /// This node can't go on.
  void Fail(const Status& status) HP_EXCLUDES(mutex_);
  /// The watch says that the job is over for us: another node is lost, or the others know of our own failure.
  void OnLost(const Status& status, bool said) HP_EXCLUDES(mutex_);
  void Leave() HP_EXCLUDES(mutex_);
  /// After a failure: until the others know of it.
  void WaitForLeave() HP_EXCLUDES(mutex_);
  void OnParted(Rank peer, const Status& refused_us) HP_EXCLUDES(mutex_);
  /// Runs `event` now, or when the job is assembled if it is not yet.
  void WhenReady(std::function<void()> event) HP_EXCLUDES(mutex_);
  int ThreadsOf(Rank rank) const;
  Status TakeThreads(int threads) const;
  template <typename Message>
  void Send(Rank rank, uint32_t type, const Message& message);

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
  bool InputsReady(MsgId id, int segment) override;
  void Freed(int solver, MsgId id) override;

  NodeOptions options_;
  const RoutingTable& table_;
  const NodeInfo& info_;
  Transport* const transport_;

  caffe::SolverParameter solver_;
  std::shared_ptr<const caffe::NetParameter> net_;
  std::unique_ptr<LoadedSnapshot> snapshot_;
  uint64_t snapshot_hash_ = 0;
  int64_t start_clock_ = 0;
  std::vector<int> saved_threads_;  // of the nodes when the snapshot was written, by rank; empty: of no meaning here
  uint64_t seed_ = 0;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Input> train_input_, test_input_;
  std::unique_ptr<JobHandshake> handshake_;
  std::unique_ptr<Watch> watch_;
  std::unique_ptr<NodeModel> model_;
  std::unique_ptr<ParamStore> params_;
  std::unique_ptr<LabelStore> labels_;
  std::unique_ptr<NodeRendezvous> rendezvous_;
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<Compute> compute_;
  std::unique_ptr<Reporter> reporter_;
  std::atomic<bool> reporter_ready_{false};
  std::unique_ptr<Snapshotter> snapshotter_;
  std::unique_ptr<PullServer> pulls_;
  std::unique_ptr<VerdictKeeper> verdicts_;
  std::unique_ptr<Pipeline> pipeline_;
  std::vector<std::unique_ptr<MemoryRegion>> regions_;
  Thread executor_;

  std::atomic<bool> stop_requested_{false}, snapshot_requested_{false};
  Mutex mutex_;
  CondVar changed_;
  std::set<Rank> connected_ HP_GUARDED_BY(mutex_);
  std::set<Rank> parted_ HP_GUARDED_BY(mutex_);  // refused by us or refusing us, or given up
  bool connecting_ HP_GUARDED_BY(mutex_) = true;
  bool watch_over_ HP_GUARDED_BY(mutex_) = false, left_ HP_GUARDED_BY(mutex_) = false;
  bool ready_ HP_GUARDED_BY(mutex_) = false;
  std::vector<std::function<void()>> waiting_ HP_GUARDED_BY(mutex_);  // events from before ready_
  bool executed_ HP_GUARDED_BY(mutex_) = false;                       // the executor has left its loop
  Status failure_ HP_GUARDED_BY(mutex_);
  Status apart_ HP_GUARDED_BY(mutex_);                       // why the job can't come together
  Status stopped_ HP_GUARDED_BY(mutex_);                     // by a verdict
  std::map<int64_t, Verdict> orders_ HP_GUARDED_BY(mutex_);  // by the clock that begins with them
};

}  // namespace hp
