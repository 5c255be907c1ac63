#include "transport/tcp/tcp_transport.h"

#include "base/mutex.h"
#include "transport/tcp/endpoint.h"
#include "transport/tcp/progress.h"
#include "transport/tcp/rendezvous.h"

#include <glog/logging.h>

#include <map>
#include <utility>

namespace hp {
namespace {

class NoRegion : public MemoryRegion {};

class TcpTransport : public Transport {
 public:
  TcpTransport(TcpOptions options, std::unique_ptr<TcpListener> listener)
      : options_(std::move(options)), listener_(std::move(listener)), progress_(options_.spin_ns) {}
  ~TcpTransport() override { Stop(); }

  Status Start(TransportHandler* handler, HandshakePolicy* policy) override;
  StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte>) override {
    return std::unique_ptr<MemoryRegion>(std::make_unique<NoRegion>());  // the kernel reaches all memory
  }
  Status Grant(Rank peer, const PlaceTag& tag, std::span<std::byte> place) override {
    const auto endpoint = Find(peer);
    return endpoint ? endpoint->Grant(tag, place) : NotConnected(peer);
  }
  Status Write(Rank peer, const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override {
    const auto endpoint = Find(peer);
    return endpoint ? endpoint->Write(tag, grant, source) : NotConnected(peer);
  }
  Status CancelGrant(Rank peer, RemoteGrant grant) override {
    const auto endpoint = Find(peer);
    return endpoint ? endpoint->CancelGrant(grant) : NotConnected(peer);
  }
  Status Send(Rank peer, uint32_t type, std::span<const std::byte> bytes) override {
    const auto endpoint = Find(peer);
    return endpoint ? endpoint->Send(type, bytes) : NotConnected(peer);
  }
  int64_t LastHeardNs(Rank peer) const override {
    const auto endpoint = Find(peer);
    return endpoint ? endpoint->LastHeardNs() : 0;
  }
  void Shutdown(Rank peer) override {
    if (const auto endpoint = Find(peer)) endpoint->Shutdown();
  }
  void Stop() override;

 private:
  static Status NotConnected(Rank peer) { return Unavailable("node %d is not connected", peer); }
  std::shared_ptr<TcpEndpoint> Find(Rank peer) const HP_EXCLUDES(mutex_);
  bool IsConnected(Rank peer) const;
  void Connected(Rank peer, const std::string& name, TcpSocket socket) HP_EXCLUDES(mutex_);

  const TcpOptions options_;
  std::unique_ptr<TcpListener> listener_;
  ProgressThread progress_;
  std::unique_ptr<Rendezvous> rendezvous_;
  TransportHandler* handler_ = nullptr;
  mutable Mutex mutex_;  // outermost
  std::map<Rank, std::shared_ptr<TcpEndpoint>> endpoints_ HP_GUARDED_BY(mutex_);
};

Status TcpTransport::Start(TransportHandler* handler, HandshakePolicy* policy) {
  CHECK(rendezvous_ == nullptr) << "a transport is started once";
  handler_ = handler;
  Rendezvous::Callbacks callbacks;
  callbacks.is_connected = [this](Rank peer) { return IsConnected(peer); };
  callbacks.connected = [this](Rank peer, const std::string& name, TcpSocket socket) {
    Connected(peer, name, std::move(socket));
  };
  rendezvous_ = std::make_unique<Rendezvous>(progress_.io(), options_, std::move(listener_), handler, policy,
                                             std::move(callbacks));
  rendezvous_->Start();
  progress_.Start("tcp-" + std::to_string(options_.rank));
  return OkStatus();
}

std::shared_ptr<TcpEndpoint> TcpTransport::Find(Rank peer) const {
  MutexLock lock(&mutex_);
  const auto it = endpoints_.find(peer);
  return it == endpoints_.end() ? nullptr : it->second;
}

bool TcpTransport::IsConnected(Rank peer) const {
  const auto endpoint = Find(peer);
  return endpoint && !endpoint->closed();
}

void TcpTransport::Connected(Rank peer, const std::string& name, TcpSocket socket) {
  auto endpoint = std::make_shared<TcpEndpoint>(
      peer, name, std::move(socket), TcpEndpointContext{&progress_, handler_, options_.clock, options_.on_receive});
  {
    MutexLock lock(&mutex_);
    // Of a closed node, LastHeardNs still tells; clients come and go, and are forgotten.
    std::erase_if(endpoints_,
                  [](const auto& entry) { return entry.first >= kFirstClientRank && entry.second->closed(); });
    endpoints_[peer] = endpoint;
  }
  endpoint->Open();
}

void TcpTransport::Stop() {
  progress_.Stop();
  if (rendezvous_) rendezvous_->Stop();
  std::map<Rank, std::shared_ptr<TcpEndpoint>> endpoints;
  {
    MutexLock lock(&mutex_);
    endpoints.swap(endpoints_);
  }
  for (const auto& [rank, endpoint] : endpoints) endpoint->Abandon();
}

}  // namespace

std::unique_ptr<Transport> MakeTcpTransport(TcpOptions options, std::unique_ptr<TcpListener> listener) {
  return std::make_unique<TcpTransport>(std::move(options), std::move(listener));
}

}  // namespace hp
