#include "transport/tcp/tcp_transport.h"

#include "transport/connect/peer_connector.h"
#include "transport/connect/progress.h"
#include "transport/linked_transport.h"
#include "transport/tcp/endpoint.h"

#include <glog/logging.h>

#include <utility>

namespace hp {
namespace {

class TcpTransport : public LinkedTransport {
 public:
  TcpTransport(ConnectOptions options, std::unique_ptr<TcpListener> listener)
      : options_(std::move(options)), listener_(std::move(listener)), progress_(options_.spin_ns) {}
  ~TcpTransport() override { Stop(); }

  Status Start(TransportHandler* handler, HandshakePolicy* policy) override;
  void Defer(std::function<void()> event) override { progress_.Post(std::move(event)); }
  void Stop() override;

 private:
  void Connected(Rank peer, const std::string& name, std::unique_ptr<ByteStream> stream);

  const ConnectOptions options_;
  std::unique_ptr<TcpListener> listener_;
  ProgressThread progress_;
  std::unique_ptr<PeerConnector> connector_;
  TransportHandler* handler_ = nullptr;
};

Status TcpTransport::Start(TransportHandler* handler, HandshakePolicy* policy) {
  CHECK(connector_ == nullptr) << "a transport is started once";
  handler_ = handler;
  PeerConnector::Callbacks callbacks;
  callbacks.is_connected = [this](Rank peer) { return HasOpenLink(peer); };
  callbacks.connected = [this](Rank peer, const std::string& name, std::unique_ptr<ByteStream> stream) {
    Connected(peer, name, std::move(stream));
  };
  connector_ = std::make_unique<PeerConnector>(progress_.io(), options_, std::move(listener_), handler, policy,
                                               std::move(callbacks));
  connector_->Start();
  progress_.Start("tcp-" + std::to_string(options_.rank),
                  [handler](const Status& status) { handler->OnOutOfMemory(status); });
  return OkStatus();
}

void TcpTransport::Connected(Rank peer, const std::string& name, std::unique_ptr<ByteStream> stream) {
  const auto link = MakeTcpLink(peer, name, std::move(stream), {&progress_, handler_, options_.clock});
  AddLink(peer, link);
  link->Open();
}

void TcpTransport::Stop() {
  progress_.Stop();
  if (connector_) connector_->Stop();
  AbandonLinks();
}

}  // namespace

std::shared_ptr<SocketLink> MakeTcpLink(Rank peer, const std::string& name, std::unique_ptr<ByteStream> stream,
                                        const SocketLinkContext& context) {
  return std::make_shared<TcpEndpoint>(peer, name, std::move(stream), context);
}

std::unique_ptr<Transport> MakeTcpTransport(ConnectOptions options, std::unique_ptr<TcpListener> listener) {
  return std::make_unique<TcpTransport>(std::move(options), std::move(listener));
}

}  // namespace hp
