// Half round trip and bandwidth of a transport between two processes of this host, as nodes use it: writes into granted
// places. One line for each size; test/bench/transport_bench.sh and verbs_bench.sh put other programs beside it.
#include "base/clock.h"
#include "base/mutex.h"
#include "tensor/buffer.h"
#include "transport/copy/copy_transport.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/verbs/verbs_transport.h"

#include "devices/host_copier.h"
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <sstream>
#include <utility>
#include <vector>

DEFINE_string(
    transport, "tcp",
    "tcp, tcp with a job's token (token), or with TLS as well (tls), copies into each other's memory beside tcp "
    "(copies), or verbs");
DEFINE_string(addresses, "127.0.0.1,127.0.0.1", "of the two processes; with verbs they choose the devices");
DEFINE_int32(qps, 1, "data queue pairs, with verbs");
DEFINE_string(sizes, "64,1024,4096,16384,65536,262144,1048576,4194304,16777216,67108864", "bytes of a write");
DEFINE_int32(time_ms, 200, "for each measurement");
DEFINE_int32(repeats, 3, "of each measurement; the best of them is printed");
DEFINE_int32(idle_s, 0,
             "instead: how much of a core each of two connected nodes uses in so many seconds, with heartbeats");
DEFINE_int32(spin_us, 50, "how long a node looks for more before it sleeps");
DEFINE_bool(pin, true, "keep the two processes on different cores");
DEFINE_bool(header, true, "print what the columns are");

namespace hp {
namespace {

enum class Mode { kLatency, kBandwidth, kIdle };
enum Message : uint32_t { kCount, kDone, kHeartbeat, kQuit };
// Places granted ahead; half of them are granted anew when they have been used, as a node grants when a solver is free.
constexpr size_t kMinWindow = 4, kMaxWindow = 64, kWindowBytes = 4 << 20;
constexpr uint32_t kPort = 1;

std::string AddressOf(Rank rank) {
  const size_t comma = FLAGS_addresses.find(',');
  CHECK(comma != std::string::npos) << "--addresses=A,B";
  return rank == 0 ? FLAGS_addresses.substr(0, comma) : FLAGS_addresses.substr(comma + 1);
}

std::unique_ptr<Transport> MakeTransport(ConnectOptions connect, std::unique_ptr<TcpListener> listener) {
  if (FLAGS_transport != "verbs") {
    if (FLAGS_transport != "tcp") connect.keys = JobKeys{.node = true};
    connect.tls = FLAGS_transport == "tls";
    return MakeTcpTransport(std::move(connect), std::move(listener));
  }
  VerbsOptions options;
  options.connect = std::move(connect);
  options.tcp_link = MakeTcpLink;
  options.settings.qps_per_connection = FLAGS_qps;
  options.settings.timeout = 16;  // two processes may share few and slow processors here
  auto transport = MakeVerbsTransport(std::move(options), std::move(listener));
  CHECK(transport.ok()) << transport.status();
  return *std::move(transport);
}

Buffer Memory(size_t bytes, HostCopier* copier) {
  StatusOr<Buffer> memory = copier != nullptr ? copier->Allocate(bytes) : Buffer::Allocate(bytes);
  CHECK(memory.ok()) << memory.status();
  return *std::move(memory);
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class Policy : public HandshakePolicy {
 public:
  explicit Policy(Rank rank) : rank_(rank) {}
  std::string Hello() override { return std::to_string(rank_); }
  StatusOr<Rank> Accept(std::string_view hello) override { return std::stoi(std::string(hello)); }
  void OnRefused(Rank, const Status& reason) override { LOG(FATAL) << reason; }

 private:
  const Rank rank_;
};

/// One of the two processes, for one measurement. Rank 0 measures and rank 1 serves: it answers each write with a write
/// (latency) or takes writes as fast as they come (bandwidth).
class Node : public TransportHandler {
 public:
  struct Result {
    double half_round_trip_s = 0;  ///< median
    double bytes_per_s = 0;
    double cpu_s = 0;  ///< of both processes
    double bytes = 0;
  };

  Node(Mode mode, size_t bytes, Rank rank, int port, std::unique_ptr<TcpListener> listener)
      : mode_(mode),
        bytes_(bytes),
        window_(std::clamp(kWindowBytes / bytes, kMinWindow, kMaxWindow)),
        rank_(rank),
        peer_(1 - rank),
        policy_(rank),
        copier_(FLAGS_transport == "copies" ? std::make_unique<HostCopier>(ThisPlace()) : nullptr),
        memory_(Memory(window_ * bytes, copier_.get())),
        source_(Memory(bytes, nullptr)) {
    std::memset(memory_.data(), 1, memory_.bytes());
    std::memset(source_.data(), 1, source_.bytes());
    ConnectOptions options;
    options.rank = rank;
    options.peers = {{0, "rank 0", AddressOf(0), port}, {1, "rank 1", AddressOf(1), 1}};
    options.bind_host = AddressOf(rank);
    options.spin_ns = FLAGS_spin_us * 1000;
    transport_ = MakeTransport(options, std::move(listener));
    if (copier_ != nullptr) Copy();
    for (const Buffer* buffer : {&memory_, &source_}) {
      auto region = transport_->Register(buffer->span());
      CHECK(region.ok()) << region.status();
      regions_.push_back(*std::move(region));
    }
  }

  ~Node() override { transport_->Stop(); }  // ahead of its memory
  void Start() { CHECK(transport_->Start(this, &policy_).ok()); }
  /// Rank 0.
  Result Measure() {
    Await();
    if (mode_ == Mode::kIdle) Idle();
    Tell(kQuit, 0);
    return result_;
  }
  /// Rank 1.
  void Serve() { Await(); }

  void OnConnected(Rank) override {
    if (copier_ == nullptr) Ready();
  }
  void Ready() {
    if (mode_ == Mode::kIdle && rank_ == 0) return Finish();
    if (mode_ == Mode::kIdle) return;
    cpu_s_ = CpuSeconds();
    for (uint64_t slot = 0; slot < window_; ++slot) Grant(slot);
  }
  void OnConnectFailed(Rank, const Status& status) override { LOG(FATAL) << status; }
  void OnGranted(Rank, const PlaceTag& tag, RemoteGrant grant, size_t) override {
    granted_.push_back({tag, grant});
    if (rank_ != 0 || finished_) return;
    if (begin_ns_ == 0) Begin();
    if (mode_ == Mode::kBandwidth) WriteAll();
  }
  void OnGrantEnded(Rank, const PlaceTag& tag, const Status& status) override {
    if (!status.ok()) return;
    ++received_;
    free_.push_back(tag.msg_id);
    if (free_.size() >= window_ / 2) {
      for (uint64_t slot : std::exchange(free_, {})) Grant(slot);
    }
    mode_ == Mode::kLatency ? OnPing() : CheckCount();
  }
  void OnWriteEnded(Rank, const PlaceTag&, const Status&) override {}
  void OnMessage(Rank, uint32_t type, std::span<const std::byte> bytes) override {
    double value = 0;
    CHECK_EQ(bytes.size(), sizeof(value));
    std::memcpy(&value, bytes.data(), sizeof(value));
    if (type == kCount) {
      expected_ = static_cast<uint64_t>(value);
      CheckCount();
    } else if (type == kDone) {
      result_.bytes = static_cast<double>(sent_) * bytes_;
      result_.bytes_per_s = result_.bytes / ((Clock::Real()->NowNs() - begin_ns_) * 1e-9);
      result_.cpu_s = CpuSeconds() - cpu_s_ + value;
      Finish();
    } else if (type == kQuit) {
      Finish();
    }
  }
  void OnClosed(Rank, const Status&) override {}

 private:
  /// Puts copies around the transport.
  void Copy() {
    CopyOptions options;
    options.peers = {peer_};
    options.copier = copier_.get();
    options.on_settled = [this](Rank, const CopyRoad& road) {
      CHECK(road.why_not.ok()) << road.why_not;
      Ready();
    };
    beneath_ = std::move(transport_);
    transport_ = std::make_unique<CopyTransport>(beneath_.get(), std::move(options));
  }

  struct Granted {
    PlaceTag tag;
    RemoteGrant grant;
  };

  void Tell(Message type, double value) {
    CHECK(transport_->Send(peer_, type, std::as_bytes(std::span(&value, 1))).ok());
  }
  void Grant(uint64_t slot) {
    CHECK(transport_->Grant(peer_, {slot, kPort}, memory_.span().subspan(slot * bytes_, bytes_)).ok());
  }
  void WriteOne() {
    CHECK(!granted_.empty());
    const Granted to = granted_.front();
    granted_.pop_front();
    CHECK(transport_->Write(peer_, to.tag, to.grant, source_.span()).ok());
    ++sent_;
  }
  bool TimeIsUp(int64_t now_ns) const { return now_ns - begin_ns_ > FLAGS_time_ms * kNsPerMs; }
  void Begin() {
    round_trips_ns_.reserve(1 << 20);
    begin_ns_ = last_ns_ = Clock::Real()->NowNs();
    if (mode_ == Mode::kLatency) WriteOne();
  }
  void WriteAll() {
    while (!granted_.empty()) WriteOne();
    if (!TimeIsUp(Clock::Real()->NowNs())) return;
    finished_ = true;
    Tell(kCount, static_cast<double>(sent_));
  }
  void OnPing() {
    if (rank_ == 0) {
      const int64_t now_ns = Clock::Real()->NowNs();
      round_trips_ns_.push_back(now_ns - std::exchange(last_ns_, now_ns));
      if (TimeIsUp(now_ns)) return FinishLatency();
    }
    WriteOne();
  }
  void FinishLatency() {
    const auto middle = round_trips_ns_.begin() + round_trips_ns_.size() / 2;
    std::nth_element(round_trips_ns_.begin(), middle, round_trips_ns_.end());
    result_.half_round_trip_s = *middle * 0.5e-9;
    Finish();
  }
  void CheckCount() {
    if (expected_ == 0 || received_ < expected_) return;
    Tell(kDone, CpuSeconds() - cpu_s_);
  }
  void Idle() {
    const double before_s = CpuSeconds();
    for (int beat = 0; beat < 2 * FLAGS_idle_s; ++beat) {
      usleep(500'000);
      Tell(kHeartbeat, 0);
    }
    result_.cpu_s = CpuSeconds() - before_s;
  }
  void Finish() {
    MutexLock lock(&mutex_);
    done_ = true;
    changed_.SignalAll();
  }
  void Await() {
    MutexLock lock(&mutex_);
    while (!done_) changed_.Wait(&mutex_);
  }

  const Mode mode_;
  const size_t bytes_, window_;
  const Rank rank_, peer_;
  Policy policy_;
  const std::unique_ptr<HostCopier> copier_;  // null: no copies
  Buffer memory_, source_;
  // Progress thread.
  bool finished_ = false;
  uint64_t sent_ = 0, received_ = 0, expected_ = 0;
  int64_t begin_ns_ = 0, last_ns_ = 0;
  double cpu_s_ = 0;
  std::vector<uint64_t> free_;  // places that were written to
  std::deque<Granted> granted_;
  std::vector<int64_t> round_trips_ns_;
  Result result_;  // the main thread's once done_
  Mutex mutex_;
  CondVar changed_;
  bool done_ HP_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Transport> beneath_;  // what carries the messages of copies
  std::unique_ptr<Transport> transport_;
  std::vector<std::unique_ptr<MemoryRegion>> regions_;
};

void PinTo(Rank rank) {
  if (!FLAGS_pin) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(rank, &cores);
  PCHECK(sched_setaffinity(0, sizeof(cores), &cores) == 0);
}

Node::Result Measure(Mode mode, size_t bytes) {
  auto listener = TcpListener::Bind(AddressOf(0), 0);
  CHECK(listener.ok()) << listener.status();
  const int port = (*listener)->port();
  const pid_t child = fork();
  PCHECK(child >= 0);
  if (child == 0) {
    *listener = nullptr;
    PinTo(1);
    Node node(mode, bytes, 1, port, nullptr);
    node.Start();
    node.Serve();
    _exit(0);
  }
  PinTo(0);
  Node node(mode, bytes, 0, port, *std::move(listener));
  node.Start();
  const Node::Result result = node.Measure();
  int status = 0;
  waitpid(child, &status, 0);
  CHECK_EQ(status, 0);
  return result;
}

void MeasureSize(size_t bytes) {
  double latency_s = 1e9;
  Node::Result rate;
  for (int repeat = 0; repeat < FLAGS_repeats; ++repeat) {
    latency_s = std::min(latency_s, Measure(Mode::kLatency, bytes).half_round_trip_s);
    const Node::Result one = Measure(Mode::kBandwidth, bytes);
    if (one.bytes_per_s > rate.bytes_per_s) rate = one;
  }
  std::printf("%10zu %12.2f %12.0f %12.3f\n", bytes, latency_s * 1e6, rate.bytes_per_s * 1e-6,
              rate.cpu_s / (rate.bytes * 1e-9));
  std::fflush(stdout);
}

}  // namespace
}  // namespace hp

int main(int argc, char** argv) {
  gflags::SetUsageMessage("measures a transport between two processes, e.g. transport_bench --sizes=1024,1048576");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  if (FLAGS_idle_s > 0) {
    const double cpu_s = hp::Measure(hp::Mode::kIdle, 64).cpu_s;
    std::printf("idle node with heartbeats: %.3f%% of a core\n", 100 * cpu_s / FLAGS_idle_s);
    return 0;
  }
  if (FLAGS_header) std::printf("%10s %12s %12s %12s\n", "bytes", "half rt/us", "MB/s", "CPU s/GB");
  std::stringstream sizes(FLAGS_sizes);
  for (std::string size; std::getline(sizes, size, ',');) hp::MeasureSize(std::stoull(size));
  return 0;
}
