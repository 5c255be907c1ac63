// Each host connects to all others and reports itself to the first one, the leader, when it has reached all. The leader
// opens round after round (rounds.h); in each pair the first host measures (link_meter.h) and reports to the leader,
// which opens the next round when it has all pairs of this one. At the end it sends everything to everybody. Who finds
// a fault says so to all and ends its connections; all others end with that message.
#include "node/survey/host_survey.h"

#include "backend/backend.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/host.h"
#include "base/mutex.h"
#include "node/survey/host_report.h"
#include "node/survey/link_meter.h"
#include "node/survey/rounds.h"
#include "proto/text.h"
#include "transport/tcp/tcp_transport.h"

#include "devices/devices.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

namespace hp {
namespace {

constexpr int kLeader = 0;
constexpr char kGreeting[] = "hpnode-doctor";
constexpr int64_t kSilenceNs = 60 * kNsPerSecond;  // longer than a round takes on slow links
constexpr auto kFarewell = std::chrono::seconds(2);

enum SurveyType : uint32_t { kHost = 100, kRound, kPair, kReport, kFailure };

/// The folder that snapshots go to. Empty: its solver does not lie on this host, or names none.
std::string SnapshotFolder(const RoutingTable& table) {
  const StatusOr<caffe::SolverParameter> solver = ReadSolver(table.solver_path());
  return solver.ok() ? std::filesystem::path(solver->snapshot_prefix()).parent_path().string() : "";
}

std::span<const std::byte> TextBytes(const std::string& text) { return std::as_bytes(std::span(text)); }

template <typename Message>
StatusOr<Message> Parse(std::span<const std::byte> bytes) {
  Message message;
  if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return message;
  return FailedPrecondition("a message that can't be read");
}

class HostSurvey : public TransportHandler, public HandshakePolicy {
 public:
  HostSurvey(const RoutingTable& table, int own) : table_(table), own_(own), nodes_(FirstNodesOfHosts(table)) {}

  StatusOr<SurveyReport> Run(const HostSettings& settings, std::unique_ptr<TcpListener> listener);

  // HandshakePolicy
  std::string Hello() override {
    return Format("%s %d %016llx", kGreeting, own_, static_cast<unsigned long long>(table_.hash()));
  }
  Rank ClaimedRank(std::string_view hello) const override;
  StatusOr<Rank> Accept(std::string_view hello) override;
  void OnRefusalSent(std::string_view hello) override;
  void OnRefused(Rank peer, const Status& reason) override { Fail(reason.Prepend(Label(peer) + " refused this host")); }
  // TransportHandler
  void OnConnected(Rank peer) override;
  void OnConnectFailed(Rank peer, const Status& status) override;
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) override {
    Check(peer, meter_->OnGranted(peer, tag, grant, bytes));
  }
  void OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) override {
    if (status.ok()) Check(peer, meter_->OnGrantEnded(peer, tag));
  }
  void OnWriteEnded(Rank, const PlaceTag&, const Status&) override { last_event_ns_ = Clock::Real()->NowNs(); }
  void OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) override;
  void OnClosed(Rank peer, const Status& status) override;

 private:
  int hosts() const { return static_cast<int>(nodes_.size()); }
  /// "host b (node fc0, 10.0.0.2:29500)"
  std::string Label(Rank host) const;
  Status Handle(Rank peer, uint32_t type, std::span<const std::byte> bytes);
  void Check(Rank peer, const Status& status);
  void Broadcast(uint32_t type, const std::string& bytes);
  Status AddHost(Rank host, const HostReport& report);
  Status StartRound(int round);
  Status AddPair(const PairReport& pair);
  /// Ends the survey here; the first call counts.
  void Finish(const Status& status) HP_EXCLUDES(mutex_);
  Status AnotherTable(Rank host) const;
  void Fail(const Status& status);
  void WaitForEnd() HP_EXCLUDES(mutex_);

  const RoutingTable& table_;
  const int own_;
  const std::vector<Rank> nodes_;
  std::unique_ptr<Transport> transport_;
  std::optional<LinkMeter> meter_;
  std::vector<std::string> addresses_;  // numeric, by host
  std::atomic<int64_t> last_event_ns_{0};

  // Of the progress thread.
  bool finished_ = false;
  std::set<Rank> connected_;
  std::set<Rank> other_tables_;  // hosts that came with one
  HostReport self_;
  SurveyReport report_;
  std::set<int> reported_;
  int round_ = -1, pairs_left_ = 0;

  Mutex mutex_;
  CondVar changed_;
  std::optional<Status> result_ HP_GUARDED_BY(mutex_);
  int open_ HP_GUARDED_BY(mutex_) = 0;  // connections
};

std::string HostSurvey::Label(Rank host) const {
  if (host < 0 || host >= hosts()) return "a stranger";
  const NodeInfo& node = table_.node(nodes_[host]);
  return "host " + node.host + " (node " + node.name + ", " + node.address() + ")";
}

Rank HostSurvey::ClaimedRank(std::string_view hello) const {
  std::istringstream words{std::string(hello)};
  std::string greeting;
  Rank host = -1;
  return words >> greeting >> host && greeting == kGreeting && host >= 0 && host < hosts() ? host : -1;
}

StatusOr<Rank> HostSurvey::Accept(std::string_view hello) {
  std::istringstream words{std::string(hello)};
  std::string greeting, hash;
  Rank host = -1;
  if (!(words >> greeting >> host >> hash) || greeting != kGreeting) {
    return InvalidArgument("this is hpnode --doctor --routing=..., and the other side is not");
  }
  const std::string own_hash = Format("%016llx", static_cast<unsigned long long>(table_.hash()));
  if (hash != own_hash) {
    other_tables_.insert(ClaimedRank(hello));
    return InvalidArgument("its routing table is another one than %s", table_.path().c_str());
  }
  if (host < 0 || host >= hosts() || host == own_) return InvalidArgument("it says it is host %d of the table", host);
  return host;
}

/// It has been told; the others would wait for it in vain.
void HostSurvey::OnRefusalSent(std::string_view hello) {
  const Rank host = ClaimedRank(hello);
  if (host < 0 || other_tables_.count(host) == 0) return;
  Fail(AnotherTable(host));
}

Status HostSurvey::AnotherTable(Rank host) const {
  return InvalidArgument("%s: its routing table is another one than %s", Label(host).c_str(), table_.path().c_str());
}

void HostSurvey::OnConnected(Rank peer) {
  last_event_ns_ = Clock::Real()->NowNs();
  connected_.insert(peer);
  {
    MutexLock lock(&mutex_);
    ++open_;
  }
  if (finished_) return transport_->Shutdown(peer);
  if (static_cast<int>(connected_.size()) < hosts() - 1) return;
  Check(peer, own_ == kLeader ? AddHost(own_, self_)
                              : transport_->Send(kLeader, kHost, TextBytes(self_.SerializeAsString())));
}

void HostSurvey::OnConnectFailed(Rank peer, const Status& status) {
  if (status.code() != StatusCode::kDeadlineExceeded) return Fail(status.Prepend(Label(peer)));
  std::string missing;
  for (Rank host = 0; host < hosts(); ++host) {
    if (host == own_ || connected_.count(host) > 0) continue;
    missing += (missing.empty() ? "" : ", ") + Label(host);
  }
  Fail(
      DeadlineExceeded("%s did not appear: is hpnode --doctor --routing=%s running there, with the same --token_file, "
                       "and does a firewall let its "
                       "port through?",
                       missing.c_str(), table_.path().c_str()));
}

void HostSurvey::OnClosed(Rank peer, const Status& status) {
  connected_.erase(peer);
  {
    MutexLock lock(&mutex_);
    --open_;
    changed_.SignalAll();
  }
  if (finished_) return;
  // Whoever ends by another table before our own refusal was sent has the same cause.
  if (!other_tables_.empty()) return Fail(AnotherTable(*other_tables_.begin()));
  Fail(Unavailable("%s was lost: %s", Label(peer).c_str(), status.message().c_str()));
}

void HostSurvey::OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) {
  last_event_ns_ = Clock::Real()->NowNs();
  if (!finished_) Check(peer, Handle(peer, type, bytes));
}

Status HostSurvey::Handle(Rank peer, uint32_t type, std::span<const std::byte> bytes) {
  if (type == kHost && own_ == kLeader) {
    HP_ASSIGN_OR_RETURN(const auto report, Parse<HostReport>(bytes));
    return AddHost(peer, report);
  }
  if (type == kPair && own_ == kLeader) {
    HP_ASSIGN_OR_RETURN(const auto pair, Parse<PairReport>(bytes));
    return AddPair(pair);
  }
  if (type == kRound && peer == kLeader) {
    HP_ASSIGN_OR_RETURN(const auto pair, Parse<PairReport>(bytes));
    return StartRound(pair.first());
  }
  if (type == kReport && peer == kLeader) {
    HP_ASSIGN_OR_RETURN(report_, Parse<SurveyReport>(bytes));
    Finish(OkStatus());
    return OkStatus();
  }
  if (type == kFailure) {
    HP_ASSIGN_OR_RETURN(const auto failure, Parse<SurveyFailure>(bytes));
    Finish(Status(static_cast<StatusCode>(failure.code()), Printable(failure.message())));
    return OkStatus();
  }
  return meter_->OnMessage(peer, type, bytes);
}

/// A post fails when its connection has ended, which OnClosed says with the cause; all else is the peer's fault.
void HostSurvey::Check(Rank peer, const Status& status) {
  if (!status.ok() && status.code() != StatusCode::kUnavailable) Fail(status.Prepend(Label(peer) + " sent"));
}

void HostSurvey::Broadcast(uint32_t type, const std::string& bytes) {
  for (const Rank peer : connected_) (void)transport_->Send(peer, type, TextBytes(bytes));
}

Status HostSurvey::AddHost(Rank host, const HostReport& report) {
  while (report_.host_size() < hosts()) report_.add_host();
  *report_.mutable_host(host) = report;
  reported_.insert(host);
  return static_cast<int>(reported_.size()) == hosts() ? StartRound(0) : OkStatus();
}

Status HostSurvey::StartRound(int round) {
  round_ = round;
  if (own_ == kLeader) {
    PairReport opening;
    opening.set_first(round);
    Broadcast(kRound, opening.SerializeAsString());
    pairs_left_ = 0;
    for (int host = 0; host < hosts(); ++host) pairs_left_ += PartnerOf(host, round, hosts()) > host;
  }
  const int partner = PartnerOf(own_, round, hosts());
  if (partner < own_) return OkStatus();  // it measures, or there is none
  meter_->Measure(partner, [this, partner](PairReport pair) {
    pair.set_first(own_);
    pair.set_second(partner);
    pair.set_path_mtu(PathMtu(addresses_[partner]));
    Check(partner,
          own_ == kLeader ? AddPair(pair) : transport_->Send(kLeader, kPair, TextBytes(pair.SerializeAsString())));
  });
  return OkStatus();
}

Status HostSurvey::AddPair(const PairReport& pair) {
  if (pair.first() < 0 || pair.first() >= pair.second() || pair.second() >= hosts()) {
    return FailedPrecondition("a pair of hosts that are not in the table");
  }
  *report_.add_pair() = pair;
  if (--pairs_left_ > 0) return OkStatus();
  if (round_ + 1 < RoundsOf(hosts())) return StartRound(round_ + 1);
  Broadcast(kReport, report_.SerializeAsString());
  Finish(OkStatus());
  return OkStatus();
}

void HostSurvey::Fail(const Status& status) {
  if (finished_) return;
  SurveyFailure failure;
  failure.set_code(static_cast<int>(status.code()));
  failure.set_message(status.message());
  Broadcast(kFailure, failure.SerializeAsString());
  Finish(status);
}

void HostSurvey::Finish(const Status& status) {
  if (finished_) return;
  finished_ = true;
  for (const Rank peer : std::set<Rank>(connected_)) transport_->Shutdown(peer);
  MutexLock lock(&mutex_);
  result_ = status;
  changed_.SignalAll();
}

void HostSurvey::WaitForEnd() {
  MutexLock lock(&mutex_);
  while (!result_) {
    changed_.WaitFor(&mutex_, std::chrono::seconds(1));
    const int64_t last_ns = last_event_ns_.load();
    if (last_ns == 0 || Clock::Real()->NowNs() - last_ns < kSilenceNs) continue;
    transport_->Defer([this] {
      // While others are still expected to appear there is another deadline.
      if (static_cast<int>(connected_.size()) < hosts() - 1) return;
      const int partner = round_ < 0 ? -1 : PartnerOf(own_, round_, hosts());
      Fail(Unavailable("%s has been silent for %d s", Label(partner >= 0 ? partner : kLeader).c_str(),
                       static_cast<int>(kSilenceNs / kNsPerSecond)));
    });
  }
  // What was said last is on its way until the others have ended their sides.
  const auto until = std::chrono::steady_clock::now() + kFarewell;
  while (open_ > 0 && std::chrono::steady_clock::now() < until) {
    changed_.WaitFor(&mutex_, until - std::chrono::steady_clock::now());
  }
}

StatusOr<SurveyReport> HostSurvey::Run(const HostSettings& settings, std::unique_ptr<TcpListener> listener) {
  const NodeInfo& node = table_.node(nodes_[own_]);
  HP_ASSIGN_OR_RETURN(const std::string listen, ListenAddress(node, settings));
  if (table_.config().transport().tls() && !settings.keys) return NoTokenForTls(table_);
  for (const Rank rank : nodes_) {
    const std::vector<std::string> found = ResolveHost(table_.node(rank).host);
    addresses_.push_back(found.empty() ? "" : found.front());
  }
  // The interface is that of the way to the first other host.
  self_ = ReportOfThisHost(hosts() > 1 ? AddressTowards(addresses_[own_ == 0 ? 1 : 0]) : addresses_[own_],
                           SnapshotFolder(table_));
  self_.set_host(node.host);
  self_.set_node(node.name);
  self_.set_lacks_bfloat16(WantsBFloat16(table_, node.host) && !CpuMultipliesBFloat16());
  if (WantsJpegDecoder(table_, node.host)) self_.set_lacks_jpeg_decoder(CheckJpegDecoder().message());
  if (hosts() == 1) {
    *report_.add_host() = self_;
    return report_;
  }
  ConnectOptions connect = ConnectOptionsFor(table_, node.rank, settings, listen);
  connect.rank = own_;
  connect.peers.clear();
  for (Rank host = 0; host < hosts(); ++host) {
    const NodeInfo& other = table_.node(nodes_[host]);
    connect.peers.push_back({host, other.name, other.host, other.port});
  }
  transport_ = MakeTcpTransport(std::move(connect), std::move(listener));
  meter_.emplace(transport_.get());
  HP_RETURN_IF_ERROR(transport_->Start(this, this));
  WaitForEnd();
  transport_->Stop();
  MutexLock lock(&mutex_);
  if (!result_->ok()) return *result_;
  return report_;
}

}  // namespace

std::vector<Rank> FirstNodesOfHosts(const RoutingTable& table) {
  std::vector<Rank> nodes;
  std::set<std::string> seen;
  for (const NodeInfo& node : table.nodes()) {
    if (seen.insert(node.host).second) nodes.push_back(node.rank);
  }
  return nodes;
}

StatusOr<SurveyReport> SurveyHosts(const RoutingTable& table, int own, const HostSettings& settings,
                                   std::unique_ptr<TcpListener> listener) {
  return HostSurvey(table, own).Run(settings, std::move(listener));
}

}  // namespace hp
