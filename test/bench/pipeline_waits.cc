// The pipelines of a made-up job whose tasks only wait: over TCP, one process for each node, or (--simulate) on
// simulated time. pipeline_waits.py puts both beside each other, on shaped links.
#include "base/clock.h"
#include "base/mutex.h"
#include "base/pending_file.h"
#include "base/philox.h"
#include "node/exchange_links.h"
#include "scheduler/control/exchange_tag.h"
#include "scheduler/simulator/simulation.h"
#include "scheduler/simulator/simulation_report.h"
#include "scheduler/simulator/simulation_trace.h"
#include "solvers/exchange/ring_exchange.h"
#include "tensor/buffer.h"
#include "test/unit/simulator/made_up_job.h"
#include "transport/tcp/tcp_transport.h"

#include <gflags/gflags.h>
#include <glog/logging.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

DEFINE_bool(simulate, false, "simulate the job instead of running a node of it");
DEFINE_string(trace, "", "with --simulate: file for a trace");
DEFINE_bool(tasks, false, "print when each task began");
DEFINE_bool(report, false, "with --simulate: print what nodes wait for, too");
DEFINE_int32(node, 0, "which node this process is");
DEFINE_string(addresses, "127.0.0.1,127.0.0.1,127.0.0.1", "of the nodes: replicas, then shards; equal ones are a host");
DEFINE_int32(port, 29700, "of the first node; the others use the next ones");
DEFINE_double(mbit, 1000, "with --simulate: 10^6 bits/s of a link, Ethernet headers included");
DEFINE_int32(latency_us, 100, "with --simulate: of a message, microseconds");
DEFINE_int32(replicas, 2, "nodes of the conv stage");
DEFINE_int32(shards, 1, "nodes of the FC stage; 0: none");
DEFINE_int32(micro_batches, 4, "of a replica");
DEFINE_int32(rows, 8, "samples of a micro-batch");
DEFINE_int32(row_kb, 32, "KiB of a tensor for each sample");
DEFINE_int32(pool, 4, "solvers of a replica; a shard has one for each of its ids, at most --shard_pool");
DEFINE_int32(shard_pool, 1000, "solvers of a shard, at most as many as ids that may be under way");
DEFINE_double(exchange_mb, 0.004, "10^6 bytes that replicas sum in each of two collectives");
// No multiples of each other: what would happen at one moment on simulated time does not anywhere else.
DEFINE_double(forward_ms, 41.3, "time of a forward pass");
DEFINE_double(backward_ms, 76.1, "time of a backward pass");
DEFINE_double(shard_ms, 34.7, "time of a forward or backward pass of a shard");
DEFINE_int32(clocks, 12, "iterations");
DEFINE_int32(staleness, 0, "iterations that a node may be ahead");
DEFINE_double(late_ms, 0, "time by which every fourth forward pass of a replica is late, at random");

namespace hp::test {
namespace {

constexpr int64_t kWarmUp = 2;
// Of 1514 bytes that a full frame has by tc's count, TCP's payload is 1448.
constexpr double kPayload = 1448.0 / 1514;
constexpr uint32_t kReport = 20, kVerdict = 21;

struct Waits : public TaskTimes {
  int64_t NsOf(Rank rank, const Task& task) const override {
    const bool shard = rank >= FLAGS_replicas;
    if (task.kind != Task::kForward && task.kind != Task::kBackward) return 0;
    double ms = shard ? FLAGS_shard_ms : task.kind == Task::kForward ? FLAGS_forward_ms : FLAGS_backward_ms;
    const bool late = Philox4x32(1, task.id.bits, static_cast<uint64_t>(rank))[0] % 4 == 0;
    if (!shard && task.kind == Task::kForward && late) ms += FLAGS_late_ms;
    return static_cast<int64_t>(ms * kNsPerMs);
  }
};

std::vector<std::string> Addresses() {
  std::vector<std::string> addresses;
  std::stringstream list(FLAGS_addresses);
  for (std::string address; std::getline(list, address, ',');) addresses.push_back(address);
  return addresses;
}

SimulatedJob MakeJob() {
  JobSpec spec = FLAGS_shards > 0 ? OneFcStage(FLAGS_replicas, FLAGS_shards, false) : NoFcStage(FLAGS_replicas);
  spec.staleness = FLAGS_staleness;
  spec.shape = TrainingShape(FLAGS_replicas, FLAGS_micro_batches, FLAGS_clocks, FLAGS_rows);
  SimulatedJob job = SimulatedJobOf(spec, FLAGS_mbit * 1e6 / 8 * kPayload, int64_t{FLAGS_row_kb} << 10);
  std::map<std::string, int> hosts;
  const std::vector<std::string> addresses = Addresses();
  CHECK_EQ(addresses.size(), job.nodes.size()) << "--addresses";
  for (size_t rank = 0; rank < addresses.size(); ++rank) {
    job.nodes[rank].host = hosts.try_emplace(addresses[rank], static_cast<int>(hosts.size())).first->second;
    job.nodes[rank].plan.pool_size =
        static_cast<int>(rank) < FLAGS_replicas
            ? FLAGS_pool
            : std::min(FLAGS_shard_pool, FLAGS_replicas * FLAGS_micro_batches * (FLAGS_staleness + 1));
  }
  job.hosts.resize(hosts.size());
  for (SimulatedHost& host : job.hosts) host.latency_ns = FLAGS_latency_us * 1000, host.local_latency_ns = 50'000;
  if (FLAGS_replicas > 1) {
    const auto bytes = static_cast<int64_t>(FLAGS_exchange_mb * 1e6) / 4 * 4;
    SimulatedExchange exchange;
    exchange.ranks = spec.ranks_of(0);
    exchange.collectives = {{bytes, 256 << 10}, {bytes, 256 << 10}};
    exchange.groups.assign(FLAGS_replicas, {1, 0});
    exchange.collectives_of = {{0}, {1}};
    job.exchanges.push_back(exchange);
  }
  return job;
}

/// A node as hpnode assembles it: its pipeline, its part of the ring, and tensors that nobody computes.
class WaitingNode : public TransportHandler, public HandshakePolicy, public PipelineHost {
 public:
  WaitingNode(const SimulatedJob& job, Rank rank)
      : job_(job),
        rank_(rank),
        plan_(job.nodes[rank].plan),
        schedule_(job.shape),
        rows_(schedule_.RowCounts(true).back()) {
    ConnectOptions options;
    options.rank = rank;
    const std::vector<std::string> addresses = Addresses();
    for (Rank peer = 0; peer < nodes(); ++peer) {
      options.peers.push_back({peer, job.nodes[peer].name, addresses[peer], FLAGS_port + peer});
    }
    auto listener = TcpListener::Bind(addresses[rank], FLAGS_port + rank);
    CHECK(listener.ok()) << listener.status();
    transport_ = MakeTcpTransport(options, *std::move(listener));
    for (int solver = 0; solver < plan_.pool_size; ++solver) {
      for (const PortPlan& port : plan_.train[0].ports) {
        places_[solver].push_back(*Buffer::Allocate(static_cast<size_t>(port.row_bytes * rows_)));
      }
    }
    pipeline_ = std::make_unique<Pipeline>(plan_, schedule_, this, transport_.get());
    if (!job.exchanges.empty() && rank < FLAGS_replicas) MakeExchange(job.exchanges[0]);
  }
  ~WaitingNode() override { transport_->Stop(); }  // ahead of the memory that peers write to

  /// @return samples in a second, behind the warm-up.
  double Run() {
    CHECK(transport_->Start(this, this).ok());
    prctl(PR_SET_TIMERSLACK, 1);  // ns by which a wait may be late
    int64_t begin_ns = 0, end_ns = 0;
    while (const std::optional<Task> task = pipeline_->NextTask()) {
      if (FLAGS_tasks)
        std::printf("%.1f %s\n", (Clock::Real()->NowNs() % 1000000000000) / 1e6, Describe(*task).c_str());
      std::this_thread::sleep_for(std::chrono::nanoseconds(Waits().NsOf(rank_, *task)));
      Finish(*task);
      if (task->kind != Task::kFinishClock) continue;
      if (task->clock == kWarmUp - 1) begin_ns = Clock::Real()->NowNs();
      if (task->clock == FLAGS_clocks - 1) end_ns = Clock::Real()->NowNs();
    }
    for (Rank peer = 0; peer < nodes(); ++peer) transport_->Shutdown(peer);
    MutexLock lock(&mutex_);
    while (closed_ < nodes() - 1) changed_.Wait(&mutex_);
    return static_cast<double>((FLAGS_clocks - kWarmUp) * schedule_.update_rows()) * 1e9 /
           static_cast<double>(end_ns - begin_ns);
  }

  // PipelineHost
  std::span<std::byte> Place(int solver, MsgId id, int port) override {
    const int64_t bytes = plan_.train[0].ports[port].row_bytes * schedule_.SamplesOfId(id).rows;
    return places_[solver][port].span().first(static_cast<size_t>(bytes));
  }
  bool InputsReady(MsgId, int) override { return true; }
  void Freed(int, MsgId) override {}

  // HandshakePolicy
  std::string Hello() override { return std::to_string(rank_); }
  StatusOr<Rank> Accept(std::string_view hello) override { return std::stoi(std::string(hello)); }
  void OnRefused(Rank, const Status& reason) override { LOG(FATAL) << reason; }

  // TransportHandler
  void OnConnected(Rank) override {
    if (++connected_ == nodes() - 1) Send(0, kReport, -1);
  }
  void OnConnectFailed(Rank, const Status& status) override { LOG(FATAL) << status; }
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) override {
    if (IsExchangeTag(tag)) return links_->OnGranted(tag, grant);
    pipeline_->OnGranted(peer, tag, grant, bytes);
  }
  void OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) override {
    if (IsExchangeTag(tag)) return links_->OnGrantEnded(tag, status);
    pipeline_->OnGrantEnded(peer, tag, status);
  }
  void OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) override {
    if (IsExchangeTag(tag)) return links_->OnWriteEnded(tag, status);
    pipeline_->OnWriteEnded(peer, tag, status);
  }
  void OnMessage(Rank, uint32_t type, std::span<const std::byte> bytes) override {
    int64_t clock = 0;
    std::memcpy(&clock, bytes.data(), sizeof(clock));
    Hear(type, clock);
  }
  void OnClosed(Rank, const Status&) override {
    MutexLock lock(&mutex_);
    ++closed_;
    changed_.SignalAll();
  }

 private:
  int nodes() const { return static_cast<int>(job_.nodes.size()); }

  void MakeExchange(const SimulatedExchange& exchange) {
    RingPlan::Options options;
    options.rank = rank_;
    options.size = FLAGS_replicas;
    for (const SimulatedExchange::Collective& collective : exchange.collectives) {
      options.counts.push_back(static_cast<size_t>(collective.bytes) / sizeof(float));
      gradients_.push_back(*Buffer::Allocate(static_cast<size_t>(collective.bytes)));
    }
    const RingPlan plan(options);
    const Rank left = (rank_ + FLAGS_replicas - 1) % FLAGS_replicas, right = (rank_ + 1) % FLAGS_replicas;
    links_ = std::make_unique<ExchangeLinks>(transport_.get(), left,
                                             ExchangePlaces{.granter = right, .bytes = plan.SentBytes()});
    Exchange::Callbacks callbacks;
    callbacks.on_exchanged = [this](uint64_t clock, int param) {
      pipeline_->OnExchanged(static_cast<int64_t>(clock), 0, job_.exchanges[0].groups[rank_][param]);
    };
    callbacks.on_failure = [](const Status& status) { LOG(ERROR) << status; };
    auto made = RingExchange::Create(plan, {0, 1}, links_.get(), callbacks);
    CHECK(made.ok()) << made.status();
    exchange_ = *std::move(made);
  }

  void Finish(const Task& task) {
    const std::vector<MsgId> ids = schedule_.TrainIds(task.clock, plan_.share);
    if (exchange_ != nullptr && task.kind == Task::kBackward && task.id == ids.back()) {
      for (int param = 0; param < 2; ++param) {
        exchange_->Add(static_cast<uint64_t>(task.clock), param,
                       {gradients_[param].floats(), gradients_[param].bytes() / sizeof(float)});
      }
      exchange_->Flush(static_cast<uint64_t>(task.clock));
    }
    if (task.kind == Task::kFinishClock) Send(0, kReport, task.clock);
    pipeline_->Done(task);
  }

  void Send(Rank to, uint32_t type, int64_t clock) {
    if (to == rank_) return Hear(type, clock);
    const Status status = transport_->Send(to, type, std::as_bytes(std::span(&clock, 1)));
    CHECK(status.ok()) << status;
  }
  /// The verdict of clock -1 is that all are connected.
  void Hear(uint32_t type, int64_t clock) {
    if (type == kVerdict) {
      if (clock < 0) return pipeline_->Start();
      return pipeline_->OnVerdict(clock, std::nullopt);
    }
    {
      MutexLock lock(&mutex_);
      if (++reports_[clock] < nodes()) return;
    }
    for (Rank rank = nodes(); rank-- > 0;) Send(rank, kVerdict, clock);
  }

  const SimulatedJob& job_;
  const Rank rank_;
  const PipelinePlan plan_;
  const Schedule schedule_;
  const int64_t rows_;
  std::map<int, std::vector<Buffer>> places_;  // by solver and port
  std::vector<Buffer> gradients_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<ExchangeLinks> links_;
  std::unique_ptr<RingExchange> exchange_;
  int connected_ = 0;  // progress thread
  Mutex mutex_;
  CondVar changed_;
  std::map<int64_t, int> reports_ HP_GUARDED_BY(mutex_);
  int closed_ HP_GUARDED_BY(mutex_) = 0;
};

int Main() {
  const SimulatedJob job = MakeJob();
  if (!FLAGS_simulate) {
    WaitingNode node(job, FLAGS_node);
    std::printf("%.2f images/s\n", node.Run());
    return 0;
  }
  SimulationTrace trace;
  const StatusOr<SimulationResult> result =
      Simulate(job, Waits(), {.warm_up = kWarmUp, .trace = FLAGS_trace.empty() ? nullptr : &trace});
  CHECK(result.ok()) << result.status();
  if (!FLAGS_trace.empty()) {
    std::vector<std::string> names;
    for (const SimulatedJob::Node& node : job.nodes) names.push_back(node.name);
    CHECK(WriteWholeFile(FLAGS_trace, trace.Json(names)).ok());
  }
  std::printf("%.2f images/s\n", result->samples_per_s());
  if (FLAGS_report) std::printf("%s", DescribeSimulation(job, *result).c_str());
  return 0;
}

}  // namespace
}  // namespace hp::test

int main(int argc, char** argv) {
  gflags::SetUsageMessage("runs a node of a job whose tasks only wait, or simulates the job; see pipeline_waits.py");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  return hp::test::Main();
}
