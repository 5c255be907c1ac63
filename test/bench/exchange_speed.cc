// Sums of gradients over the replicas of a conv stage, each replica a process of this host: the ring over TCP
// connections, as nodes use it. One line for each size.
#include "base/clock.h"
#include "base/mutex.h"
#include "node/exchange_links.h"
#include "solvers/exchange/direct_allreduce.h"
#include "solvers/exchange/linked_exchange.h"
#include "solvers/exchange/ring.h"
#include "tensor/buffer.h"
#include "test/support/exchange_waiter.h"
#include "transport/tcp/tcp_transport.h"

#include <gflags/gflags.h>
#include <glog/logging.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

DEFINE_string(sizes, "65536,262144,1048576,10485760,62914560", "bytes of the gradient");
DEFINE_int32(replicas, 2, "processes");
DEFINE_int32(sums, 30, "of each size; the median is printed");
DEFINE_bool(bf16, false, "gradients cross in bfloat16, between every two replicas, instead of round a ring in float32");
DEFINE_int32(min_chunk, 256 << 10, "BlockPlan's limits of a chunk, in bytes");
DEFINE_int32(max_chunk, 1 << 20, "likewise");
DEFINE_bool(header, true, "print what the columns are");

namespace hp {
namespace {

class Policy : public HandshakePolicy {
 public:
  explicit Policy(Rank rank) : rank_(rank) {}
  std::string Hello() override { return std::to_string(rank_); }
  StatusOr<Rank> Accept(std::string_view hello) override { return std::stoi(std::string(hello)); }
  void OnRefused(Rank, const Status& reason) override { LOG(FATAL) << reason; }

 private:
  const Rank rank_;
};

/// One replica: its transport, and an exchange of one parameter over it.
class Replica : public TransportHandler {
 public:
  Replica(Rank rank, size_t bytes, const std::vector<PeerAddress>& peers, std::unique_ptr<TcpListener> listener)
      : peers_(static_cast<int>(peers.size()) - 1), policy_(rank), gradient_(*Buffer::Allocate(bytes)) {
    ConnectOptions options;
    options.rank = rank;
    options.peers = peers;
    transport_ = MakeTcpTransport(options, std::move(listener));
    const int size = static_cast<int>(peers.size());
    const BlockPlan::Options cut{.rank = rank,
                                 .size = size,
                                 .counts = {bytes / sizeof(float)},
                                 .min_chunk_bytes = static_cast<size_t>(FLAGS_min_chunk),
                                 .max_chunk_bytes = static_cast<size_t>(FLAGS_max_chunk)};
    ExchangeLinks::Options links{transport_.get(), {}, 0, {}};
    for (int replica = 0; replica < size; ++replica) {
      links.peers.push_back(replica);
      if (!FLAGS_bf16 && replica == RingPlan(cut).right()) {
        links.places.push_back({.granter = replica, .bytes = RingPlan(cut).SentBytes()});
      }
      if (FLAGS_bf16 && replica != rank) {
        links.places.push_back({.granter = replica, .bytes = DirectPlan(cut).BytesFrom(replica)});
      }
    }
    links_ = std::make_unique<ExchangeLinks>(std::move(links));
    const auto sums = [&](Allreduce::DoneSink on_done) {
      return FLAGS_bf16 ? DirectAllreduce::Create(DirectPlan(cut), links_.get(), std::move(on_done))
                        : Ring::Create(RingPlan(cut), links_.get(), std::move(on_done));
    };
    auto exchange = LinkedExchange::Create(sums, {0}, links_.get(), waiter_.callbacks());
    CHECK(exchange.ok()) << exchange.status();
    exchange_ = *std::move(exchange);
  }
  ~Replica() override { transport_->Stop(); }  // ahead of the memory that peers write to

  /// @return seconds of each sum, sorted.
  std::vector<double> Run() {
    CHECK(transport_->Start(this, &policy_).ok());
    Await(&connected_);
    std::vector<double> seconds;
    for (int clock = 0; clock < FLAGS_sums; ++clock) {
      const int64_t begin_ns = Clock::Real()->NowNs();
      exchange_->Add(clock, 0, {gradient_.floats(), gradient_.bytes() / sizeof(float)});
      exchange_->Flush(clock);
      const Status status = waiter_.Wait(clock, 1);
      CHECK(status.ok()) << status;
      seconds.push_back((Clock::Real()->NowNs() - begin_ns) * 1e-9);
    }
    for (Rank peer = 0; peer <= peers_; ++peer) transport_->Shutdown(peer);
    Await(&closed_);
    std::sort(seconds.begin(), seconds.end());
    return seconds;
  }

  void OnConnected(Rank) override { Count(&connected_); }
  void OnConnectFailed(Rank, const Status& status) override { LOG(FATAL) << status; }
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t) override {
    links_->OnGranted(peer, tag, grant);
  }
  void OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) override {
    links_->OnGrantEnded(peer, tag, status);
  }
  void OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) override {
    links_->OnWriteEnded(peer, tag, status);
  }
  void OnMessage(Rank, uint32_t, std::span<const std::byte>) override {}
  void OnClosed(Rank, const Status&) override { Count(&closed_); }

 private:
  void Count(int* events) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    ++*events;
    changed_.SignalAll();
  }
  /// Waits until it has happened with every peer.
  void Await(const int* events) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    while (*events < peers_) changed_.Wait(&mutex_);
  }

  const int peers_;
  Policy policy_;
  Buffer gradient_;
  test::ExchangeWaiter waiter_;
  Mutex mutex_;
  CondVar changed_;
  int connected_ = 0, closed_ = 0;  // peers; under mutex_
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<ExchangeLinks> links_;
  std::unique_ptr<LinkedExchange> exchange_;
};

double CpuSecondsOfChildren() {
  rusage usage;
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void MeasureSize(size_t bytes) {
  std::vector<std::unique_ptr<TcpListener>> listeners;
  std::vector<PeerAddress> peers;
  for (Rank rank = 0; rank < FLAGS_replicas; ++rank) {
    auto listener = TcpListener::Bind("127.0.0.1", 0);
    CHECK(listener.ok()) << listener.status();
    peers.push_back({rank, "replica " + std::to_string(rank), "127.0.0.1", (*listener)->port()});
    listeners.push_back(*std::move(listener));
  }
  const double cpu_s = CpuSecondsOfChildren();
  for (Rank rank = 0; rank < FLAGS_replicas; ++rank) {
    const pid_t child = fork();
    PCHECK(child >= 0);
    if (child > 0) continue;
    Replica replica(rank, bytes, peers, std::move(listeners[rank]));
    const std::vector<double> seconds = replica.Run();
    const double median_s = seconds[seconds.size() / 2];
    if (rank == 0) std::printf("%10zu %12.2f %12.0f", bytes, median_s * 1e3, bytes / median_s * 1e-6);
    std::fflush(stdout);
    _exit(0);
  }
  for (Rank rank = 0; rank < FLAGS_replicas; ++rank) {
    int status = 0;
    PCHECK(wait(&status) > 0);
    CHECK_EQ(status, 0);
  }
  std::printf(" %12.2f\n", (CpuSecondsOfChildren() - cpu_s) / FLAGS_sums * 1e3);
  std::fflush(stdout);
}

}  // namespace
}  // namespace hp

int main(int argc, char** argv) {
  gflags::SetUsageMessage("measures the exchange of gradients between processes, e.g. exchange_speed --replicas=4");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  if (FLAGS_header) std::printf("%10s %12s %12s %12s\n", "bytes", "median/ms", "MB/s", "CPU ms/sum");
  std::stringstream sizes(FLAGS_sizes);
  for (std::string size; std::getline(sizes, size, ',');) hp::MeasureSize(std::stoull(size));
  return 0;
}
