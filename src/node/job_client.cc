// A client of the transport without a rank, as the puller of weights (pull_client.cc): the progress thread keeps what
// the node sends, and the caller's thread waits for it.
#include "node/job_client.h"

#include "base/host.h"
#include "base/mutex.h"
#include "node/make_transport.h"
#include "proto/parse.h"
#include "scheduler/control/handshake.h"
#include "scheduler/control/messages.h"
#include "scheduler/control/order_text.h"
#include "transport/tcp/tcp_transport.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <span>
#include <string>

namespace hp {
namespace {

/// Who this process is, for the log of the node that takes its orders.
OrderGiver OwnGiver() {
  OrderGiver giver;
  giver.set_user(UserName().substr(0, kMaxGiverText));
  giver.set_host(HostName().substr(0, kMaxGiverText));
  giver.set_program(std::string(program_invocation_short_name).substr(0, kMaxGiverText));
  giver.set_process(getpid());
  return giver;
}

class TcpJobClient : public JobClient, private TransportHandler {
 public:
  TcpJobClient(const RoutingTable& table, const Options& options)
      : table_(table),
        timeout_ms_(options.timeout_ms),
        handshake_(
            table, [this](const Status& status) { End(status); }, options.control) {}
  ~TcpJobClient() override {
    if (transport_) transport_->Stop();
  }

  Status Start(const Options& options) {
    const NodeInfo& first = table_.node(0);
    ConnectOptions connect;
    connect.client = true;
    connect.control = options.control;
    connect.peers.push_back({0, first.name, first.host, first.port});
    connect.connect_deadline_ms = options.timeout_ms;
    connect.keys = options.keys;
    connect.tls = table_.config().transport().tls();
    if (connect.tls && !connect.keys) return NoTokenForTls(table_);
    if (options.control && connect.keys && !connect.keys->node)
      return InvalidArgument("orders need the job's token; this is its read key");
    transport_ = MakeTcpTransport(connect, nullptr);
    HP_RETURN_IF_ERROR(transport_->Start(this, &handshake_));
    MutexLock lock(&mutex_);
    return WaitUntil([this]() HP_REQUIRES(mutex_) { return connected_; });
  }

  StatusOr<JobStatus> AskStatus() override {
    HP_ASSIGN_OR_RETURN(const std::string bytes, Ask(kStatusRequest, "", kStatusAnswer));
    JobStatus status;
    if (ParseMessage(bytes, &status)) return status;
    return DataLoss("cannot parse the job's status");
  }

  StatusOr<int64_t> GiveOrder(const JobOrder& order) override {
    JobOrder given = order;
    *given.mutable_giver() = OwnGiver();
    HP_ASSIGN_OR_RETURN(const std::string bytes, Ask(kOrderRequest, given.SerializeAsString(), kOrderAnswer));
    OrderAnswer answer;
    if (!ParseMessage(bytes, &answer)) return DataLoss("cannot parse the answer to an order");
    if (answer.status() != 0) return FailedPrecondition("%s", Printable(answer.message()).c_str());
    return answer.iteration();
  }

 private:
  StatusOr<std::string> Ask(uint32_t type, const std::string& bytes, uint32_t answer_type) {
    MutexLock lock(&mutex_);
    answer_.reset();
    answer_type_ = answer_type;
    HP_RETURN_IF_ERROR(transport_->Send(0, type, std::as_bytes(std::span(bytes))));
    HP_RETURN_IF_ERROR(WaitUntil([this]() HP_REQUIRES(mutex_) { return answer_.has_value(); }));
    return *std::move(answer_);
  }
  template <typename Condition>
  Status WaitUntil(const Condition& done) HP_REQUIRES(mutex_) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms_);
    while (!done()) {
      if (!ended_.ok()) return ended_;
      const auto left = until - std::chrono::steady_clock::now();
      if (left.count() > 0) {
        changed_.WaitFor(&mutex_, left);
      } else if (connected_) {
        return Unavailable("node %s did not answer for %.1f s", table_.node(0).address().c_str(), timeout_ms_ / 1e3);
      } else {
        return Unavailable("no job at %s", table_.node(0).address().c_str());
      }
    }
    return OkStatus();
  }
  void End(const Status& status) {
    MutexLock lock(&mutex_);
    if (ended_.ok()) ended_ = status;
    changed_.SignalAll();
  }

  void OnConnected(Rank) override {
    MutexLock lock(&mutex_);
    connected_ = true;
    changed_.SignalAll();
  }
  void OnConnectFailed(Rank, const Status& status) override { End(status); }
  void OnGranted(Rank, const PlaceTag&, RemoteGrant, size_t) override {}
  void OnGrantEnded(Rank, const PlaceTag&, const Status&) override {}
  void OnWriteEnded(Rank, const PlaceTag&, const Status&) override {}
  void OnMessage(Rank, uint32_t type, std::span<const std::byte> bytes) override {
    MutexLock lock(&mutex_);
    if (type != answer_type_) return;
    answer_.emplace(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    changed_.SignalAll();
  }
  void OnOutOfMemory(const Status& status) override { End(status); }
  void OnClosed(Rank, const Status& status) override {
    End(Unavailable("the job has ended: %s", status.message().c_str()));
  }

  const RoutingTable& table_;
  const int timeout_ms_;
  ClientHandshake handshake_;
  Mutex mutex_;
  CondVar changed_;
  bool connected_ HP_GUARDED_BY(mutex_) = false;
  Status ended_ HP_GUARDED_BY(mutex_);  // not ok: why nothing more comes
  uint32_t answer_type_ HP_GUARDED_BY(mutex_) = 0;
  std::optional<std::string> answer_ HP_GUARDED_BY(mutex_);
  std::unique_ptr<Transport> transport_;
};

}  // namespace

StatusOr<std::unique_ptr<JobClient>> JobClient::Connect(const RoutingTable& table, const Options& options) {
  auto client = std::make_unique<TcpJobClient>(table, options);
  HP_RETURN_IF_ERROR(client->Start(options));
  return std::unique_ptr<JobClient>(std::move(client));
}

}  // namespace hp
