// The measurement is a small protocol of two ends over the verbs transport. Rank 0 (--doctor_listen) grants a 64 MiB
// place and answers each ping; rank 1 (--doctor_peer) sends pings, each when the answer to the one before is there,
// then writes into the place once and waits for kDone. It reports the median round trip and the bandwidth of that
// write.
#include "node/doctor.h"

#include "base/clock.h"
#include "base/environment.h"
#include "base/format.h"
#include "base/host.h"
#include "base/mutex.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/verbs/doctor.h"

#include <algorithm>
#include <cstring>
#include <iomanip>
#include <utility>
#include <vector>

namespace hp {
namespace {

constexpr uint32_t kPing = 1, kDone = 2;
constexpr int kPings = 500, kWarmUp = 50;
constexpr size_t kBulk = 64 << 20;
constexpr PlaceTag kBulkTag{.msg_id = 1};

struct Address {
  std::string host;
  int port = 0;
};

/// One end: rank 0 waits and answers, rank 1 comes and measures.
class RoundTrip : public TransportHandler, public HandshakePolicy {
 public:
  explicit RoundTrip(Rank rank) : rank_(rank), memory_(kBulk) {}

  Status Run(const DoctorOptions& options, const Address& address, std::ostream* out);

  std::string Hello() override { return std::to_string(rank_); }
  StatusOr<Rank> Accept(std::string_view hello) override {
    if (hello == std::to_string(1 - rank_)) return 1 - rank_;
    return InvalidArgument("the peer is not running hpnode --doctor");
  }
  void OnRefused(Rank, const Status& reason) override { Finish(reason); }
  void OnConnected(Rank peer) override {
    const Status granted = rank_ == 0 ? transport_->Grant(peer, kBulkTag, memory_) : transport_->Send(peer, kPing, {});
    if (!granted.ok()) Finish(granted);
  }
  void OnConnectFailed(Rank, const Status& status) override { Finish(status); }
  void OnGranted(Rank, const PlaceTag&, RemoteGrant grant, size_t) override { grant_ = grant; }
  void OnGrantEnded(Rank peer, const PlaceTag&, const Status& status) override {
    if (!status.ok()) return;
    (void)transport_->Send(peer, kDone, {});
    transport_->Shutdown(peer);
  }
  void OnWriteEnded(Rank, const PlaceTag&, const Status&) override {}
  void OnMessage(Rank peer, uint32_t type, std::span<const std::byte>) override {
    if (rank_ == 0) {
      (void)transport_->Send(peer, type, {});
    } else if (type == kPing) {
      OnPong(peer);
    } else {
      bulk_s_ = static_cast<double>(Clock::Real()->NowNs() - last_ns_) * 1e-9;
      transport_->Shutdown(peer);
    }
  }
  void OnClosed(Rank, const Status& status) override {
    Finish(status.code() == StatusCode::kCancelled ? OkStatus() : status);
  }

 private:
  void OnPong(Rank peer);
  void Finish(const Status& status) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    if (!done_) result_ = status;
    done_ = true;
    changed_.SignalAll();
  }

  const Rank rank_;
  std::vector<std::byte> memory_;
  RemoteGrant grant_;
  int64_t last_ns_ = 0;
  std::vector<int64_t> round_trips_ns_;
  double bulk_s_ = 0;
  Mutex mutex_;
  CondVar changed_;
  bool done_ HP_GUARDED_BY(mutex_) = false;
  Status result_ HP_GUARDED_BY(mutex_);
  std::unique_ptr<Transport> transport_;
};

void RoundTrip::OnPong(Rank peer) {
  const int64_t now_ns = Clock::Real()->NowNs();
  if (last_ns_ != 0) round_trips_ns_.push_back(now_ns - last_ns_);
  last_ns_ = now_ns;
  const bool more = round_trips_ns_.size() < kPings + kWarmUp;
  const Status posted = more ? transport_->Send(peer, kPing, {}) : transport_->Write(peer, kBulkTag, grant_, memory_);
  if (!posted.ok()) Finish(posted);
}

Status RoundTrip::Run(const DoctorOptions& options, const Address& address, std::ostream* out) {
  VerbsOptions verbs;
  HP_ASSIGN_OR_RETURN(verbs.settings, VerbsSettingsFor({}, options.devices, Environment));
  verbs.address = !options.address.empty() ? options.address : rank_ == 0 ? address.host : "";
  verbs.tcp_link = MakeTcpLink;
  verbs.connect.rank = rank_;
  verbs.connect.bind_host = options.address;
  verbs.connect.peers = {{0, "the other host", address.host, address.port}, {1, "the other host", "", 0}};
  std::unique_ptr<TcpListener> listener;
  if (rank_ == 0) {
    HP_ASSIGN_OR_RETURN(listener, TcpListener::Bind(address.host, address.port));
    *out << "waiting for the other host at " << address.host << ":" << listener->port() << std::endl;
  }
  HP_ASSIGN_OR_RETURN(transport_, MakeVerbsTransport(std::move(verbs), std::move(listener)));
  HP_ASSIGN_OR_RETURN(const auto region, transport_->Register(memory_));
  HP_RETURN_IF_ERROR(transport_->Start(this, this));
  Status result;
  {
    MutexLock lock(&mutex_);
    while (!done_) changed_.Wait(&mutex_);
    result = result_;
  }
  transport_->Stop();
  if (!result.ok() || rank_ == 0) return result;
  const auto middle = round_trips_ns_.begin() + static_cast<ptrdiff_t>(round_trips_ns_.size() / 2);
  std::nth_element(round_trips_ns_.begin(), middle, round_trips_ns_.end());
  *out << Format("ok    round trip over RDMA: %.1f us; %zu MiB in one write: %.0f MB/s\n",
                 static_cast<double>(*middle) * 1e-3, kBulk >> 20, static_cast<double>(kBulk) * 1e-6 / bulk_s_)
       << std::flush;
  return OkStatus();
}

}  // namespace

Status RunDoctor(const DoctorOptions& options, std::ostream* out) {
  HP_ASSIGN_OR_RETURN(const VerbsSettings settings, VerbsSettingsFor({}, options.devices, Environment));
  int faults = 0;
  for (const Finding& finding : ExamineRdma(settings, options.address)) {
    *out << (finding.good ? "ok    " : "LOOK  ") << finding.what << "\n";
    if (!finding.advice.empty()) *out << "      -> " << finding.advice << "\n";
    faults += !finding.good;
  }
  out->flush();
  if (!options.listen.empty() || !options.peer.empty()) {
    const bool waits = !options.listen.empty();
    Address address;
    HP_RETURN_IF_ERROR(ParseHostPort(waits ? "doctor_listen" : "doctor_peer", waits ? options.listen : options.peer,
                                     &address.host, &address.port));
    HP_RETURN_IF_ERROR(RoundTrip(waits ? 0 : 1).Run(options, address, out));
  }
  return faults == 0 ? OkStatus() : FailedPrecondition("%d finding(s) need attention", faults);
}

}  // namespace hp
