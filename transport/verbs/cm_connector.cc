// The side of lower rank listens; the other resolves address and route for each queue pair and sends its connection
// request, all at the same time. Requests may arrive ahead of the peer's SETUP: they wait in early_. This file has the
// bring-up; cm_connector_events.cc has what follows from librdmacm's events.
#include "transport/verbs/cm_connector.h"

#include <fcntl.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

namespace hp {
namespace {

constexpr int kBacklog = 2 * (1 + kMaxDataQps);  // room for a stranger beside the peer's

uint64_t RandomNonce() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

/// As sockets have it.
sockaddr_storage SocketAddress(const Gid& address, uint16_t port) {
  sockaddr_storage storage = {};
  if (const GidEntry entry{.gid = address}; entry.ipv4()) {
    auto* ip = reinterpret_cast<sockaddr_in*>(&storage);
    ip->sin_family = AF_INET;
    ip->sin_port = htons(port);
    std::memcpy(&ip->sin_addr, &address[12], sizeof(ip->sin_addr));
  } else {
    auto* ip = reinterpret_cast<sockaddr_in6*>(&storage);
    ip->sin6_family = AF_INET6;
    ip->sin6_port = htons(port);
    std::memcpy(&ip->sin6_addr, address.data(), address.size());
  }
  return storage;
}

sockaddr* Plain(sockaddr_storage* storage) { return reinterpret_cast<sockaddr*>(storage); }

Status CheckAddress(const Gid& address) {
  if (address == Gid{}) return FailedPrecondition("librdmacm needs this node's numeric address");
  if (!GidEntry{.gid = address}.link_local()) return OkStatus();
  return FailedPrecondition("librdmacm needs an address of the network interface, and %s is link-local",
                            GidText(address).c_str());
}

}  // namespace

// --- Bring-up

CmConnector::CmConnector(std::shared_ptr<VerbsDevice> device, boost::asio::io_context* io, Options options)
    : device_(std::move(device)),
      verbs_(device_->verbs()),
      options_(std::move(options)),
      nonce_(RandomNonce()),
      timer_(*io),
      strangers_(Clock::Real()) {}

StatusOr<std::shared_ptr<CmConnector>> CmConnector::Open(std::shared_ptr<VerbsDevice> device,
                                                         boost::asio::io_context* io, Options options) {
  std::shared_ptr<CmConnector> connector(new CmConnector(std::move(device), io, std::move(options)));
  HP_RETURN_IF_ERROR(connector->Prepare());
  connector->descriptor_.emplace(*io, connector->channel_->fd);
  connector->WaitForEvents();
  return connector;
}

Status CmConnector::Prepare() {
  HP_RETURN_IF_ERROR(CheckAddress(options_.address));
  channel_ = CmChannelHandle(verbs_->CmCreateEventChannel(), {verbs_});
  if (!channel_) {
    return FailedPrecondition("no librdmacm here: %s (is the kernel's module rdma_ucm loaded?)", std::strerror(errno));
  }
  const int flags = fcntl(channel_->fd, F_GETFL);
  if (flags < 0 || fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return FailedPrecondition("can't poll librdmacm's events: %s", std::strerror(errno));
  }
  return options_.listens ? Listen() : OkStatus();
}

Status CmConnector::Listen() {
  const std::string address = GidText(options_.address);
  listener_ = CmIdHandle(verbs_->CmCreateId(channel_.get(), nullptr), {verbs_});
  if (!listener_) return FailedPrecondition("librdmacm gives no identifier: %s", std::strerror(errno));
  sockaddr_storage own = SocketAddress(options_.address, 0);
  if (verbs_->CmBindAddr(listener_.get(), Plain(&own)) != 0) {
    return FailedPrecondition("librdmacm can't be bound to %s: %s", address.c_str(), std::strerror(errno));
  }
  HP_RETURN_IF_ERROR(CheckDevice(listener_.get()));
  if (verbs_->CmListen(listener_.get(), kBacklog) != 0) {
    return FailedPrecondition("librdmacm can't listen at %s: %s", address.c_str(), std::strerror(errno));
  }
  port_ = verbs_->CmGetSrcPort(listener_.get());
  return OkStatus();
}

/// librdmacm opens the device a second time: ours and its are the same adapter, or a queue pair of ours can't be used.
Status CmConnector::CheckDevice(const rdma_cm_id* id) const {
  const std::string address = GidText(options_.address);
  if (id->verbs == nullptr) return FailedPrecondition("librdmacm knows no RDMA device for %s", address.c_str());
  const std::string found = verbs_->GetDeviceName(id->verbs->device);
  if (found == device_->name() && id->port_num == device_->port()) return OkStatus();
  return FailedPrecondition(
      "librdmacm finds %s at %s:%d, and this node uses %s:%d (hca and the host's address must mean the same one)",
      address.c_str(), found.c_str(), id->port_num, device_->name().c_str(), device_->port());
}

void CmConnector::AddTo(VerbsSetup* setup) const {
  setup->by_cm = true;
  setup->cm_port = port_;
  setup->cm_nonce = nonce_;
  std::copy(options_.address.begin(), options_.address.end(), setup->gid);
}

void CmConnector::Connect(const VerbsSetup& theirs, std::vector<QueuePair*> qps, ibv_mtu mtu, Callbacks callbacks) {
  theirs_ = theirs;
  mtu_ = mtu;
  callbacks_ = std::move(callbacks);
  timer_.expires_after(std::chrono::milliseconds(options_.deadline_ms));
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    if (const auto self = weak.lock(); self && !error) self->OnDeadline();
  });
  for (QueuePair* qp : qps) pending_.push_back({.qp = qp, .id = {}});
  if (!options_.listens && theirs_.cm_port == 0) return Fail(FailedPrecondition("librdmacm: neither side listens"));
  if (options_.listens) {
    while (!early_.empty()) {
      Request request = std::move(early_.front());
      early_.erase(early_.begin());
      if (const Status status = Accept(std::move(request)); !status.ok()) return Fail(status);
    }
    return;
  }
  for (PendingQueuePair& pending : pending_) {
    if (const Status status = Resolve(&pending); !status.ok()) return Fail(status);
  }
}

Status CmConnector::Resolve(PendingQueuePair* pending) {
  pending->id = CmIdHandle(verbs_->CmCreateId(channel_.get(), nullptr), {verbs_});
  if (!pending->id) return FailedPrecondition("librdmacm gives no identifier: %s", std::strerror(errno));
  Gid their_address;
  std::copy(std::begin(theirs_.gid), std::end(theirs_.gid), their_address.begin());
  sockaddr_storage own = SocketAddress(options_.address, 0), peer = SocketAddress(their_address, theirs_.cm_port);
  if (verbs_->CmResolveAddr(pending->id.get(), Plain(&own), Plain(&peer), kResolveMs) == 0) return OkStatus();
  return FailedPrecondition("librdmacm can't resolve %s from %s: %s", GidText(their_address).c_str(),
                            GidText(options_.address).c_str(), std::strerror(errno));
}

void CmConnector::Close() {
  callbacks_ = {};
  timer_.cancel();
  early_.clear();
  pending_.clear();
  listener_.reset();
  if (descriptor_) descriptor_->release();  // it is the channel's
  descriptor_.reset();
  channel_.reset();
}

}  // namespace hp
