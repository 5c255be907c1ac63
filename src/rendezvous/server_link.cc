#include "rendezvous/server_link.h"

#include <chrono>

namespace hp {
namespace {

constexpr std::chrono::seconds kPatience(4);  // for a connection, and for an answer

}  // namespace

/// One connection and the last answer on it. The transport's calls come on its progress thread.
class ServerLink::Connection : public TransportHandler {
 public:
  Connection(std::unique_ptr<Transport> transport, const EntrySeal& seal)
      : seal_(seal), handshake_(false), transport_(std::move(transport)) {}
  ~Connection() override { transport_->Stop(); }

  Status Open() HP_EXCLUDES(mutex_) {
    HP_RETURN_IF_ERROR(transport_->Start(this, &handshake_));
    MutexLock lock(&mutex_);
    while (!connected_ && ended_.ok() && changed_.WaitFor(&mutex_, 2 * kPatience)) {
    }
    if (connected_ || !ended_.ok()) return ended_;
    return Unavailable("it does not answer");
  }

  StatusOr<RendezvousAnswer> Ask(const NodeRecord& record) HP_EXCLUDES(mutex_) {
    nonce_ = record.nonce();
    const std::string bytes = seal_.Seal("tell", record.SerializeAsString());
    HP_RETURN_IF_ERROR(transport_->Send(0, kTellMessage, std::as_bytes(std::span(bytes))));
    MutexLock lock(&mutex_);
    while (ended_.ok() && (!answer_ || answer_->beat() != record.beat())) {
      if (!changed_.WaitFor(&mutex_, kPatience)) return Unavailable("it does not answer");
    }
    if (!ended_.ok()) return ended_;
    return *answer_;
  }

 private:
  void End(const Status& status) HP_EXCLUDES(mutex_) {
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
  void OnClosed(Rank, const Status& status) override {
    End(Unavailable("the connection has ended: %s", status.message().c_str()));
  }
  void OnOutOfMemory(const Status& status) override { End(status); }
  void OnMessage(Rank, uint32_t type, std::span<const std::byte> bytes) override {
    if (type != kAnswerMessage) return End(DataLoss("it sent something else than an answer"));
    const StatusOr<std::string> body =
        seal_.Open("answer." + nonce_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (!body.ok()) return End(body.status());
    StatusOr<RendezvousAnswer> answer = ParseRendezvousAnswer(*body);
    if (!answer.ok()) return End(answer.status());
    MutexLock lock(&mutex_);
    answer_ = *std::move(answer);
    changed_.SignalAll();
  }

  const EntrySeal& seal_;
  ServerHandshake handshake_;
  std::string nonce_;  // of the process that asks, always the same
  Mutex mutex_;
  CondVar changed_;
  bool connected_ HP_GUARDED_BY(mutex_) = false;
  Status ended_ HP_GUARDED_BY(mutex_);
  std::optional<RendezvousAnswer> answer_ HP_GUARDED_BY(mutex_);
  std::unique_ptr<Transport> transport_;  // stopped before the rest goes
};

ServerLink::ServerLink(std::string name, const std::optional<JobKeys>& keys, MakeTransport make_transport)
    : name_(std::move(name)),
      keys_(keys.has_value()),
      seal_(kServerSealRun, keys),
      make_transport_(std::move(make_transport)) {}

ServerLink::~ServerLink() = default;

StatusOr<RendezvousAnswer> ServerLink::Tell(NodeRecord record) {
  if (!connection_) {
    auto connection = std::make_unique<Connection>(make_transport_(), seal_);
    Status opened = connection->Open();
    if (!opened.ok() && !keys_) {
      opened = Status(opened.code(), opened.message() + "; a server with a token needs --token_file");
    }
    if (!opened.ok()) return opened.Prepend(name_);
    connection_ = std::move(connection);
  }
  record.set_beat(++beat_);
  StatusOr<RendezvousAnswer> answer = connection_->Ask(record);
  if (answer.ok()) return answer;
  connection_.reset();
  return answer.status().Prepend(name_);
}

}  // namespace hp
