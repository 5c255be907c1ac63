#include "transport/verbs/verbs_transport.h"

#include "transport/connect/peer_connector.h"
#include "transport/connect/progress.h"
#include "transport/verbs/link.h"
#include "transport/verbs/setup_exchange.h"

#include <glog/logging.h>

#include <map>
#include <utility>

namespace hp {
namespace {

class VerbsTransport : public LinkedTransport {
 public:
  VerbsTransport(VerbsOptions options, std::unique_ptr<TcpListener> listener, std::unique_ptr<VerbsHost> host,
                 std::string fault)
      : options_(std::move(options)),
        listener_(std::move(listener)),
        host_(std::move(host)),
        fault_(std::move(fault)),
        progress_(options_.connect.spin_ns) {
    CHECK(options_.tcp_link) << "VerbsOptions::tcp_link is not set";
  }
  ~VerbsTransport() override { Stop(); }

  Status Start(TransportHandler* handler, HandshakePolicy* policy) override;
  StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte> memory) override {
    return host_ ? host_->Register(memory) : LinkedTransport::Register(memory);
  }
  StatusOr<std::unique_ptr<MemoryRegion>> RegisterDevice(const DeviceMemory& memory) override {
    return host_ ? host_->RegisterDevice(memory) : Transport::RegisterDevice(memory);
  }
  void Defer(std::function<void()> event) override { progress_.Post(std::move(event)); }
  void Stop() override;

 private:
  /// librdmacm's messages may be lost, and are sent again only after 4 s: time for three tries.
  int SetupDeadlineMs() const {
    return options_.connect.handshake_deadline_ms * (options_.settings.setup == QpSetup::kRdmaCm ? 4 : 1);
  }
  // Progress thread.
  void Met(Rank peer, const std::string& name, std::unique_ptr<ByteStream> stream);
  void SetUp(Rank peer, const std::string& name, std::unique_ptr<ByteStream> stream);
  void SetUpDone(Rank peer, const std::string& name, const std::shared_ptr<VerbsLink>& link,
                 std::unique_ptr<ByteStream> stream, const SetupExchange::Result& result);
  void OpenTcp(Rank peer, const std::string& name, std::unique_ptr<ByteStream> stream);

  const VerbsOptions options_;
  std::unique_ptr<TcpListener> listener_;
  const std::unique_ptr<VerbsHost> host_;  // null: no device
  const std::string fault_;                // why not
  ProgressThread progress_;
  std::unique_ptr<PeerConnector> connector_;
  TransportHandler* handler_ = nullptr;
  uint32_t epoch_ = 0;                                         // progress thread
  std::map<Rank, std::shared_ptr<SetupExchange>> setting_up_;  // likewise
};

Status VerbsTransport::Start(TransportHandler* handler, HandshakePolicy* policy) {
  CHECK(connector_ == nullptr) << "a transport is started once";
  handler_ = handler;
  LOG(INFO) << (host_ ? "RDMA on " + host_->Describe() : "no RDMA: " + fault_);
  if (host_) {
    host_->Start({&progress_, handler, options_.connect.clock, options_.connect.rank, SetupDeadlineMs()});
  }
  PeerConnector::Callbacks callbacks;
  callbacks.is_connected = [this](Rank peer) { return setting_up_.contains(peer) || HasOpenLink(peer); };
  callbacks.connected = [this](Rank peer, const std::string& name, std::unique_ptr<ByteStream> stream) {
    Met(peer, name, std::move(stream));
  };
  connector_ = std::make_unique<PeerConnector>(progress_.io(), options_.connect, std::move(listener_), handler, policy,
                                               std::move(callbacks));
  connector_->Start();
  progress_.Start("verbs-" + std::to_string(options_.connect.rank),
                  [handler](const Status& status) { handler->OnOutOfMemory(status); });
  return OkStatus();
}

void VerbsTransport::Met(Rank peer, const std::string& name, std::unique_ptr<ByteStream> stream) {
  // Clients need no device: they speak TCP.
  if (peer >= kFirstClientRank || options_.connect.client) return OpenTcp(peer, name, std::move(stream));
  SetUp(peer, name, std::move(stream));
}

void VerbsTransport::SetUp(Rank peer, const std::string& name, std::unique_ptr<ByteStream> stream) {
  std::shared_ptr<VerbsLink> link;
  VerbsSetup ours{.fault = fault_};
  if (host_) {
    StatusOr<std::shared_ptr<VerbsLink>> made = host_->NewLink(peer, name, ++epoch_);
    StatusOr<VerbsSetup> setup = made.ok() ? (*made)->OwnSetup() : StatusOr<VerbsSetup>(made.status());
    if (setup.ok()) link = *std::move(made);
    ours = setup.ok() ? *std::move(setup) : VerbsSetup{.fault = setup.status().message()};
  }
  SetupExchange::Callbacks callbacks;
  callbacks.connect = [link](const VerbsSetup& theirs, std::function<void(const Status&)> connected) {
    link->Connect(theirs, std::move(connected));
  };
  callbacks.done = [=, this](const std::shared_ptr<SetupExchange>& exchange, const SetupExchange::Result& result) {
    setting_up_.erase(peer);
    const bool broken = result.end == SetupExchange::End::kBroken;
    SetUpDone(peer, name, link, broken ? nullptr : exchange->TakeStream(), result);
  };
  auto exchange =
      std::make_shared<SetupExchange>(std::move(stream), std::move(ours), SetupDeadlineMs(), std::move(callbacks));
  setting_up_[peer] = exchange;
  exchange->Start();
}

void VerbsTransport::SetUpDone(Rank peer, const std::string& name, const std::shared_ptr<VerbsLink>& link,
                               std::unique_ptr<ByteStream> stream, const SetupExchange::Result& result) {
  if (result.end == SetupExchange::End::kVerbs) {
    if (options_.fall_back) LOG(INFO) << name << ": over RDMA, " << host_->Describe();
    AddLink(peer, link);
    return link->Open(std::move(stream));
  }
  if (link) link->Abandon();
  if (result.end == SetupExchange::End::kNoVerbs && options_.fall_back) {
    LOG(INFO) << name << ": over TCP, because " << result.status.message();
    return OpenTcp(peer, name, std::move(stream));
  }
  handler_->OnConnectFailed(peer, result.status.Prepend(name));
}

void VerbsTransport::OpenTcp(Rank peer, const std::string& name, std::unique_ptr<ByteStream> stream) {
  const auto link = options_.tcp_link(peer, name, std::move(stream), {&progress_, handler_, options_.connect.clock});
  AddLink(peer, link);
  link->Open();
}

void VerbsTransport::Stop() {
  progress_.Stop();
  if (connector_) connector_->Stop();
  for (const auto& [rank, exchange] : setting_up_) exchange->Stop();
  setting_up_.clear();
  AbandonLinks();
  if (host_) host_->Stop();
}

}  // namespace

StatusOr<std::unique_ptr<Transport>> MakeVerbsTransport(VerbsOptions options, std::unique_ptr<TcpListener> listener) {
  HP_RETURN_IF_ERROR(CheckVerbsSettings(options.settings).Prepend("transport { verbs }"));
  StatusOr<std::unique_ptr<VerbsHost>> host = OpenVerbsHost(options);
  if (!host.ok() && !options.fall_back) return host.status().Prepend("no RDMA");
  const std::string fault = host.status().message();
  return std::unique_ptr<Transport>(std::make_unique<VerbsTransport>(std::move(options), std::move(listener),
                                                                     host.ok() ? *std::move(host) : nullptr, fault));
}

}  // namespace hp
