#include "test/bench/waiting_node.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "node/exchange_links.h"
#include "scheduler/control/exchange_tag.h"
#include "scheduler/pipeline/pipeline.h"
#include "solvers/exchange/linked_exchange.h"
#include "solvers/exchange/ring.h"
#include "tensor/buffer.h"
#include "transport/tcp/tcp_transport.h"

#include <glog/logging.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace hp::test {
namespace {

constexpr uint32_t kReport = 20, kVerdict = 21;

void WaitUntil(int64_t ns) {
  const int64_t left_ns = ns - Clock::Real()->NowNs();
  if (left_ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(left_ns));
}

/// The ring of one stage, and where in a clock its gradients become final.
struct Ring {
  int stage = 0;
  std::vector<int> groups;          // in the order of Exchange::Add
  std::vector<int64_t> last_turns;  // of each: the micro-batch that completes it
  std::vector<Buffer> gradients;
  std::unique_ptr<ExchangeLinks> links;
  std::unique_ptr<LinkedExchange> exchange;
};

/// A node as hpnode assembles it: its pipeline, its part of rings, and tensors that nobody computes.
class WaitingNode : public TransportHandler, public HandshakePolicy, public PipelineHost {
 public:
  WaitingNode(const WaitingJob& job, Rank rank)
      : job_(job), rank_(rank), plan_(job.job.nodes[rank].plan), schedule_(job.job.shape) {
    CHECK(job.job.served.empty()) << "parameter servers";
    ConnectOptions options;
    options.rank = rank;
    for (Rank peer = 0; peer < nodes(); ++peer) {
      options.peers.push_back({peer, job.job.nodes[peer].name, job.addresses[peer], job.port + peer});
    }
    auto listener = TcpListener::Bind(job.addresses[rank], job.port + rank);
    CHECK(listener.ok()) << listener.status();
    transport_ = MakeTcpTransport(options, *std::move(listener));
    for (int solver = 0; solver < plan_.pool_size; ++solver) places_.push_back(*Buffer::Allocate(SolverBytes()));
    pipeline_ = std::make_unique<Pipeline>(plan_, schedule_, this, transport_.get());
    for (size_t index = 0; index < job.job.exchanges.size(); ++index) MakeRing(index);
  }
  ~WaitingNode() override { transport_->Stop(); }  // ahead of the memory that peers write to

  /// @return samples in a second, behind the warm-up.
  double Run() {
    CHECK(transport_->Start(this, this).ok());
    prctl(PR_SET_TIMERSLACK, 1);  // ns by which a wait may be late
    const int64_t last = job_.job.shape.max_iter - 1;
    int64_t begin_ns = 0, end_ns = 0;
    while (const std::optional<Task> task = pipeline_->NextTask()) {
      Carry(*task);
      if (task->kind != Task::kFinishClock) continue;
      if (task->clock == job_.warm_up - 1) begin_ns = Clock::Real()->NowNs();
      if (task->clock == last) end_ns = Clock::Real()->NowNs();
    }
    for (Rank peer = 0; peer < nodes(); ++peer) transport_->Shutdown(peer);
    MutexLock lock(&mutex_);
    while (closed_ < nodes() - 1) changed_.Wait(&mutex_);
    return static_cast<double>((last + 1 - job_.warm_up) * schedule_.update_rows()) * 1e9 /
           static_cast<double>(end_ns - begin_ns);
  }

  // PipelineHost
  std::span<std::byte> Place(int solver, MsgId id, int port) override {
    const std::vector<PortPlan>& ports = plan_.phase(id).ports;
    const auto rows = static_cast<size_t>(schedule_.SamplesOfId(id).rows);
    size_t offset = 0;
    for (int before = 0; before < port; ++before) offset += static_cast<size_t>(ports[before].row_bytes) * rows;
    return places_[solver].span().subspan(offset, static_cast<size_t>(ports[port].row_bytes) * rows);
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
    if (IsExchangeTag(tag)) return LinksOf(tag).OnGranted(peer, tag, grant);
    pipeline_->OnGranted(peer, tag, grant, bytes);
  }
  void OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) override {
    if (IsExchangeTag(tag)) return LinksOf(tag).OnGrantEnded(peer, tag, status);
    pipeline_->OnGrantEnded(peer, tag, status);
  }
  void OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) override {
    if (IsExchangeTag(tag)) return LinksOf(tag).OnWriteEnded(peer, tag, status);
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
  int nodes() const { return static_cast<int>(job_.job.nodes.size()); }

  size_t SolverBytes() const {
    int64_t most = 1;
    for (const PhasePlan& phase : plan_.phases[0]) {
      int64_t row_bytes = 0;
      for (const PortPlan& port : phase.ports) row_bytes += port.row_bytes;
      most = std::max(most, row_bytes * schedule_.RowCounts(caffe::TRAIN).back());
    }
    return static_cast<size_t>(most);
  }

  ExchangeLinks& LinksOf(const PlaceTag& tag) const { return *rings_.at(static_cast<int>(ExchangeStage(tag))).links; }

  void MakeRing(size_t index) {
    const SimulatedExchange& exchange = job_.job.exchanges[index];
    const auto own = std::find(exchange.ranks.begin(), exchange.ranks.end(), rank_);
    if (own == exchange.ranks.end()) return;
    const auto replica = static_cast<size_t>(own - exchange.ranks.begin()), size = exchange.ranks.size();
    Ring& ring = rings_[exchange.stage];
    ring.stage = exchange.stage;
    ring.groups = exchange.groups[replica];
    RingPlan::Options options;
    options.rank = static_cast<int>(replica);
    options.size = static_cast<int>(size);
    std::vector<int> params;
    for (const size_t bytes : job_.gradients[index]) {
      params.push_back(static_cast<int>(params.size()));
      options.counts.push_back(bytes / sizeof(float));
      ring.gradients.push_back(*Buffer::Allocate(bytes));
    }
    for (const int group : ring.groups) {
      int64_t& last = ring.last_turns.emplace_back();
      for (const MsgId id : schedule_.TrainIds(0, plan_.share)) {
        if (plan_.phase(id).groups[group].first >= 0) last = TurnOf(id, plan_.replicas);
      }
    }
    const RingPlan plan(options);
    ring.links = std::make_unique<ExchangeLinks>(ExchangeLinks::Options{
        transport_.get(),
        exchange.ranks,
        exchange.stage,
        {{.stage = exchange.stage, .granter = exchange.ranks[plan.right()], .bytes = plan.SentBytes()}}});
    Exchange::Callbacks callbacks;
    callbacks.on_exchanged = [this, &ring](uint64_t clock, int param) {
      pipeline_->OnExchanged(static_cast<int64_t>(clock), ring.stage, ring.groups[param]);
    };
    callbacks.on_failure = [](const Status& status) { LOG(ERROR) << status; };
    const auto sums = [&](Allreduce::DoneSink on_done) {
      return hp::Ring::Create(plan, ring.links.get(), std::move(on_done));
    };
    auto made = LinkedExchange::Create(sums, params, ring.links.get(), callbacks);
    CHECK(made.ok()) << made.status();
    ring.exchange = *std::move(made);
  }

  /// What a backward task makes final: when after its begin, of which ring, and which of its gradients.
  struct Final {
    int64_t ns = 0;
    Ring* ring = nullptr;
    int param = 0;
  };
  std::vector<Final> FinalsOf(const Task& task) {
    std::vector<Final> finals;
    if (task.kind != Task::kBackward) return finals;
    for (auto& [stage, ring] : rings_) {
      for (int param = 0; param < static_cast<int>(ring.groups.size()); ++param) {
        const int group = ring.groups[param];
        if (TurnOf(task.id, plan_.replicas) != ring.last_turns[param]) continue;
        if (plan_.phase(task.id).groups[group].first != task.segment) continue;
        finals.push_back({job_.times->GradientNs(rank_, task, group), &ring, param});
      }
    }
    std::stable_sort(finals.begin(), finals.end(), [](const Final& a, const Final& b) { return a.ns < b.ns; });
    return finals;
  }

  void Add(const Task& task, const Final& final) {
    Ring& ring = *final.ring;
    const Buffer& gradient = ring.gradients[final.param];
    ring.exchange->Add(static_cast<uint64_t>(task.clock), final.param,
                       {gradient.floats(), gradient.bytes() / sizeof(float)});
    const bool last = final.param + 1 == static_cast<int>(ring.groups.size());
    if (last) ring.exchange->Flush(static_cast<uint64_t>(task.clock));
  }

  /// Takes as long as the task does, and carries out urgent ones between its layers.
  void Carry(const Task& task) {
    int64_t begin_ns = Clock::Real()->NowNs();
    if (job_.print_tasks) {
      std::printf("%.1f %s\n", static_cast<double>(begin_ns % 1'000'000'000'000) / 1e6, hp::Describe(task).c_str());
    }
    const bool interruptible = pipeline_->MayInterrupt(task);
    const std::vector<int64_t> ends =
        interruptible ? job_.times->LayerEndsNs(rank_, task) : std::vector<int64_t>{job_.times->NsOf(rank_, task)};
    const std::vector<Final> finals = FinalsOf(task);
    auto final = finals.begin();
    for (const int64_t end : ends) {
      for (; final != finals.end() && final->ns <= end; ++final) {
        WaitUntil(begin_ns + final->ns);
        Add(task, *final);
      }
      WaitUntil(begin_ns + end);
      while (interruptible) {
        const int64_t left_ns = Clock::Real()->NowNs();
        const std::optional<Task> urgent = pipeline_->TryUrgentTask();
        if (!urgent) break;
        Carry(*urgent);
        begin_ns += Clock::Real()->NowNs() - left_ns;
      }
    }
    for (; final != finals.end(); ++final) Add(task, *final);
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

  const WaitingJob& job_;
  const Rank rank_;
  const PipelinePlan plan_;
  const Schedule schedule_;
  std::vector<Buffer> places_;  // by solver
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Pipeline> pipeline_;
  std::map<int, Ring> rings_;  // by stage
  int connected_ = 0;          // progress thread
  Mutex mutex_;
  CondVar changed_;
  std::map<int64_t, int> reports_ HP_GUARDED_BY(mutex_);
  int closed_ HP_GUARDED_BY(mutex_) = 0;
};

}  // namespace

double RunWaitingNode(const WaitingJob& job, Rank rank) { return WaitingNode(job, rank).Run(); }

}  // namespace hp::test
