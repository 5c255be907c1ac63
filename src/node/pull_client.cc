// A client of the transport without a rank: connects to node 0 alone and asks for one chunk after the other, until one
// says that it is the last. All of it happens on the progress thread; the caller's thread waits and watches that chunks
// keep coming.
#include "node/pull_client.h"

#include "base/memory_room.h"
#include "base/mutex.h"
#include "node/make_transport.h"
#include "proto/parse.h"
#include "proto/wire.pb.h"
#include "scheduler/control/handshake.h"
#include "scheduler/control/messages.h"
#include "snapshot/pulled_blobs.h"
#include "transport/tcp/tcp_transport.h"

#include <chrono>

namespace hp {
namespace {

/// Asks for one chunk after the other and puts them together. The transport's calls come on its progress thread.
class Puller : public TransportHandler {
 public:
  explicit Puller(const RoutingTable& table) : table_(table) {}

  StatusOr<PulledModel> Pull(int timeout_ms, const std::optional<JobKeys>& keys) {
    ClientHandshake handshake(table_, [this](const Status& status) { End(status); });
    const NodeInfo& first = table_.node(0);
    ConnectOptions options;
    options.client = true;
    options.peers.push_back({0, first.name, first.host, first.port});
    options.connect_deadline_ms = timeout_ms;
    options.keys = keys;
    options.tls = table_.config().transport().tls();
    if (options.tls && !keys) return NoTokenForTls(table_);
    transport_ = MakeTcpTransport(options, nullptr);
    HP_RETURN_IF_ERROR(transport_->Start(this, &handshake));
    const Status status = Wait(timeout_ms);
    transport_->Stop();
    HP_RETURN_IF_ERROR(status);
    HP_ASSIGN_OR_RETURN(pulled_.model.blobs, blobs_.Finish());
    pulled_.model.path = "the job of " + table_.path();
    return std::move(pulled_);
  }

 private:
  Status Wait(int timeout_ms) {
    MutexLock lock(&mutex_);
    int64_t seen = -1;
    while (!ended_) {
      if (!changed_.WaitFor(&mutex_, std::chrono::milliseconds(timeout_ms)) && seen == chunks_) {
        return Unavailable("node %s sent nothing for %.1f s", table_.node(0).address().c_str(), timeout_ms / 1e3);
      }
      seen = chunks_;
    }
    return status_;
  }
  void End(const Status& status) {
    MutexLock lock(&mutex_);
    if (ended_) return;
    ended_ = true;
    status_ = status;
    changed_.SignalAll();
  }
  void Ask() {
    const Status status = transport_->Send(0, kPullRequest, {});
    if (!status.ok()) End(status);
  }
  void OnConnected(Rank) override { Ask(); }
  void OnConnectFailed(Rank, const Status& status) override { End(status); }
  void OnGranted(Rank, const PlaceTag&, RemoteGrant, size_t) override {}
  void OnGrantEnded(Rank, const PlaceTag&, const Status&) override {}
  void OnWriteEnded(Rank, const PlaceTag&, const Status&) override {}
  void OnMessage(Rank, uint32_t type, std::span<const std::byte> bytes) override {
    if (type != kPullChunk) return;  // heartbeats
    PullChunk chunk;
    if (!ParseMessage({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, &chunk)) {
      return End(DataLoss("cannot parse a chunk of the weights"));
    }
    if (const Status status = blobs_.Take(chunk); !status.ok()) return End(status);
    pulled_.iteration = chunk.iteration();
    {
      MutexLock lock(&mutex_);
      ++chunks_;
      changed_.SignalAll();
    }
    if (chunk.last()) {
      End(OkStatus());
    } else {
      Ask();
    }
  }
  void OnOutOfMemory(const Status& status) override { End(status); }
  void OnClosed(Rank, const Status& status) override {
    End(Unavailable("the job ended before it sent its weights: %s", status.message().c_str()));
  }

  const RoutingTable& table_;
  std::unique_ptr<Transport> transport_;
  PulledModel pulled_;  // progress thread until the end, as is blobs_
  PulledBlobs blobs_{HostMemoryRoom().bytes};
  Mutex mutex_;
  CondVar changed_;
  int64_t chunks_ HP_GUARDED_BY(mutex_) = 0;
  bool ended_ HP_GUARDED_BY(mutex_) = false;
  Status status_ HP_GUARDED_BY(mutex_);
};

}  // namespace

StatusOr<PulledModel> PullWeights(const RoutingTable& table, int timeout_ms, const std::optional<JobKeys>& keys) {
  return Puller(table).Pull(timeout_ms, keys);
}

}  // namespace hp
