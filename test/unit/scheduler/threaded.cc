#include "test/unit/scheduler/threaded.h"

#include "base/format.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "test/unit/scheduler/checked_node.h"
#include "transport/inproc/inproc_network.h"

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace hp::test {
namespace {

constexpr uint32_t kPart = 1, kVerdict = 2, kBye = 3;

class ThreadedNode;

/// The exchanges of replicas: who gives the last part of a stage's group tells all of that stage.
class SharedExchange {
 public:
  SharedExchange(const JobSpec& job, const std::vector<std::unique_ptr<ThreadedNode>>* nodes)
      : job_(job), nodes_(*nodes) {}
  void Add(int64_t clock, int stage, int group) HP_EXCLUDES(mutex_);

 private:
  const JobSpec& job_;
  const std::vector<std::unique_ptr<ThreadedNode>>& nodes_;
  Mutex mutex_;
  std::map<std::tuple<int64_t, int, int>, int> added_ HP_GUARDED_BY(mutex_);  // by clock, stage, group
};

/// A node as hpnode assembles it, with marks instead of nets.
class ThreadedNode : public TransportHandler, public HandshakePolicy {
 public:
  ThreadedNode(const JobSpec& job, Rank rank, InprocNetwork* network, SharedExchange* exchange)
      : job_(job), rank_(rank), exchange_(exchange), checked_(job, rank), transport_(network->Create(rank)) {
    while (checked_.TakeInput()) {
    }
    pipeline_ = std::make_unique<Pipeline>(checked_.plan(), checked_.schedule(), &checked_, transport_.get());
  }
  ~ThreadedNode() override { transport_->Stop(); }

  Status Start() { return transport_->Start(this, this); }
  void Execute() {
    {
      Thread completion;
      if (job_.enqueues) completion = Thread("completion", [this] { CompleteAll(); });
      while (const std::optional<Task> task = pipeline_->NextTask()) Carry(*task);
      MutexLock lock(&mutex_);
      ended_ = true;
      changed_.SignalAll();
    }
    for (Rank rank = 0; rank < job_.nodes(); ++rank) Send(rank, kBye, 0);
  }
  /// Until all nodes are through: nobody may leave before.
  void AwaitByes() {
    MutexLock lock(&mutex_);
    while (byes_ < job_.nodes()) changed_.Wait(&mutex_);
  }
  std::vector<std::string> Faults() const { return checked_.Faults(); }
  void OnExchanged(int64_t clock, int group) {
    checked_.OnExchanged(clock, group);
    pipeline_->OnExchanged(clock, job_.stage_of(rank_), group);
  }

  std::string Hello() override { return std::to_string(rank_); }
  StatusOr<Rank> Accept(std::string_view hello) override { return std::stoi(std::string(hello)); }
  void OnRefused(Rank, const Status&) override {}
  void OnConnected(Rank) override {
    if (++connected_ == job_.nodes() - 1) pipeline_->Start();
  }
  void OnConnectFailed(Rank, const Status&) override { pipeline_->Abort(); }
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) override {
    pipeline_->OnGranted(peer, tag, grant, bytes);
  }
  void OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) override {
    pipeline_->OnGrantEnded(peer, tag, status);
  }
  void OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) override {
    pipeline_->OnWriteEnded(peer, tag, status);
  }
  void OnMessage(Rank, uint32_t type, std::span<const std::byte> bytes) override {
    int64_t clock = 0;
    std::memcpy(&clock, bytes.data(), sizeof(clock));
    Hear(type, clock);
  }
  void OnClosed(Rank, const Status&) override {}

 private:
  /// At most so many are enqueued and not done.
  static constexpr size_t kAhead = 4;

  void Carry(const Task& task) {
    checked_.Enqueue(task);
    for (int group : checked_.GivenToExchange(task)) exchange_->Add(task.clock, job_.stage_of(rank_), group);
    if (!job_.enqueues || task.kind == Task::kBoundary) return Finish(task);
    pipeline_->Enqueued(task);
    MutexLock lock(&mutex_);
    tasks_.push_back(task);
    changed_.SignalAll();
    while (tasks_.size() >= kAhead) changed_.Wait(&mutex_);
  }
  void Finish(const Task& task) {
    if (checked_.Complete(task)) Send(0, kPart, task.clock);
    pipeline_->Done(task);
  }
  /// The thread "completion" of a device: tasks are done in their order.
  void CompleteAll() {
    for (;;) {
      Task first;
      {
        MutexLock lock(&mutex_);
        while (tasks_.empty() && !ended_) changed_.Wait(&mutex_);
        if (tasks_.empty()) return;
        first = tasks_.front();
      }
      Finish(first);
      MutexLock lock(&mutex_);
      tasks_.pop_front();
      changed_.SignalAll();
    }
  }
  void Send(Rank to, uint32_t type, int64_t clock) {
    if (to == rank_) return Hear(type, clock);
    const Status status = transport_->Send(to, type, std::as_bytes(std::span(&clock, 1)));
    if (!status.ok()) pipeline_->Abort();
  }
  void Hear(uint32_t type, int64_t clock) {
    if (type == kVerdict) {
      checked_.OnVerdict(clock);
      return pipeline_->OnVerdict(clock, std::nullopt);
    }
    {
      MutexLock lock(&mutex_);
      if (type == kBye) {
        ++byes_;
        return changed_.SignalAll();
      }
      if (++parts_[clock] < job_.nodes()) return;
    }
    for (Rank rank = 0; rank < job_.nodes(); ++rank) Send(rank, kVerdict, clock);
  }

  const JobSpec job_;
  const Rank rank_;
  SharedExchange* const exchange_;
  CheckedNode checked_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Pipeline> pipeline_;
  int connected_ = 0;  // progress thread
  Mutex mutex_;
  CondVar changed_;
  std::map<int64_t, int> parts_ HP_GUARDED_BY(mutex_);  // rank 0
  int byes_ HP_GUARDED_BY(mutex_) = 0;
  std::deque<Task> tasks_ HP_GUARDED_BY(mutex_);  // enqueued and not done; the first is being done
  bool ended_ HP_GUARDED_BY(mutex_) = false;      // the executor gets no more tasks
};

void SharedExchange::Add(int64_t clock, int stage, int group) {
  {
    MutexLock lock(&mutex_);
    if (++added_[{clock, stage, group}] < job_.stages[stage].parts) return;
  }
  for (Rank replica : job_.ranks_of(stage)) nodes_[replica]->OnExchanged(clock, group);
}

}  // namespace

std::vector<std::string> RunThreaded(const JobSpec& job, uint64_t seed) {
  InprocOptions options;
  options.world_size = job.nodes();
  options.delay = RandomDelays(seed, 100);
  InprocNetwork network(options);
  std::vector<std::unique_ptr<ThreadedNode>> nodes;
  SharedExchange exchange(job, &nodes);
  for (Rank rank = 0; rank < job.nodes(); ++rank) {
    nodes.push_back(std::make_unique<ThreadedNode>(job, rank, &network, &exchange));
  }
  std::vector<std::string> faults;
  {
    std::vector<Thread> executors;
    for (auto& node : nodes) {
      const Status status = node->Start();
      if (!status.ok()) faults.push_back(status.message());
      executors.emplace_back("executor", [&node] {
        node->Execute();
        node->AwaitByes();
      });
    }
    for (Thread& executor : executors) executor.Join();
  }
  for (Rank rank = 0; rank < job.nodes(); ++rank) {
    for (const std::string& fault : nodes[rank]->Faults()) {
      faults.push_back(Format("node %d: %s", rank, fault.c_str()));
    }
  }
  return faults;
}

}  // namespace hp::test
