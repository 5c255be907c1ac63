#include "transport/verbs/cm_connector.h"

#include "transport/verbs/wc_text.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

namespace hp {
namespace {

constexpr int kBacklog = 2 * (1 + kMaxDataQps);  // room for a stranger beside the peer's
constexpr int kResolveMs = 2000;

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

// --- Events

void CmConnector::WaitForEvents() {
  descriptor_->async_wait(boost::asio::posix::stream_descriptor::wait_read,
                          [weak = weak_from_this()](const boost::system::error_code& error) {
                            const auto self = weak.lock();
                            if (self && !error) self->TakeEvents();
                          });
}

void CmConnector::TakeEvents() {
  const auto self = shared_from_this();
  rdma_cm_event* event = nullptr;
  while (channel_ && verbs_->CmGetEvent(channel_.get(), &event) == 0) {
    Event copy{.id = event->id, .type = event->event, .status = event->status, .private_data = {}};
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST || event->event == RDMA_CM_EVENT_CONNECT_RESPONSE) {
      copy.qp_number = event->param.conn.qp_num;
      const auto* bytes = static_cast<const std::byte*>(event->param.conn.private_data);
      copy.private_data.assign(bytes, bytes + event->param.conn.private_data_len);
    }
    verbs_->CmAckEvent(event);  // ahead of what it leads to: destroying an identifier waits for it
    OnEvent(std::move(copy));
  }
  if (channel_) WaitForEvents();
}

void CmConnector::OnEvent(Event event) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) return OnRequest(std::move(event));
  if (failed_) return;
  if (event.id == listener_.get()) {
    if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) Fail(Unavailable("librdmacm: the device was removed"));
    return;
  }
  const auto pending = std::find_if(pending_.begin(), pending_.end(),
                                    [&](const PendingQueuePair& known) { return known.id.get() == event.id; });
  if (pending == pending_.end() || event.type == RDMA_CM_EVENT_TIMEWAIT_EXIT) return;
  const Status status = Step(&*pending, event);
  if (!status.ok()) Fail(status);
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

rdma_conn_param CmConnector::Parameters(const PendingQueuePair& pending, std::byte* private_data) const {
  EncodeCmHello({static_cast<uint16_t>(IndexOf(&pending)), options_.epoch, theirs_.cm_nonce}, private_data);
  rdma_conn_param parameters = {};
  parameters.private_data = private_data;
  parameters.private_data_len = kCmHelloBytes;
  parameters.responder_resources = parameters.initiator_depth = 1;
  parameters.retry_count = static_cast<uint8_t>(device_->settings().retry_count);
  parameters.rnr_retry_count = static_cast<uint8_t>(device_->settings().rnr_retry);
  parameters.srq = 1;
  parameters.qp_num = pending.qp->address().number;
  return parameters;
}

Status CmConnector::Step(PendingQueuePair* pending, const Event& event) {
  const size_t index = IndexOf(pending);
  const auto failed = [&](const char* step) {
    return FailedPrecondition("librdmacm, queue pair %zu: %s: %s", index, step, std::strerror(errno));
  };
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      HP_RETURN_IF_ERROR(CheckDevice(pending->id.get()));
      return verbs_->CmResolveRoute(pending->id.get(), kResolveMs) == 0 ? OkStatus() : failed("the route");
    case RDMA_CM_EVENT_ROUTE_RESOLVED: {
      std::array<std::byte, kCmHelloBytes> hello;
      rdma_conn_param parameters = Parameters(*pending, hello.data());
      return verbs_->CmConnect(pending->id.get(), &parameters) == 0 ? OkStatus() : failed("connecting");
    }
    case RDMA_CM_EVENT_CONNECT_RESPONSE: {
      HP_ASSIGN_OR_RETURN(const CmHello hello, DecodeCmHello(event.private_data));
      if (hello.nonce != nonce_ || hello.epoch != theirs_.epoch || hello.index != index) {
        return FailedPrecondition("librdmacm, queue pair %zu: the answer is not the peer's", index);
      }
      if (event.qp_number != theirs_.qps[index].number) {
        return FailedPrecondition("librdmacm connected queue pair %zu to qp %#x, expected %#x", index, event.qp_number,
                                  theirs_.qps[index].number);
      }
      HP_RETURN_IF_ERROR(pending->qp->Connect(pending->id.get(), mtu_, device_->settings()));
      if (verbs_->CmEstablish(pending->id.get()) != 0) return failed("the last step");
      Up(pending);
      return OkStatus();
    }
    case RDMA_CM_EVENT_ESTABLISHED:
      Up(pending);
      return OkStatus();
    default:
      return Unavailable("librdmacm, queue pair %zu: %s", index, CmEventText(event.type, event.status).c_str());
  }
}

// --- The listening side

void CmConnector::OnRequest(Event event) {
  CmIdHandle id(event.id, {verbs_});
  const StatusOr<CmHello> hello = DecodeCmHello(event.private_data);
  if (!hello.ok()) return Reject(std::move(id), hello.status().message());
  if (hello->nonce != nonce_) return Reject(std::move(id), "it belongs to another connection");
  Request request{std::move(id), *hello, event.qp_number};
  // After a failure the peer waits until Close: first it shall hear why, over TCP.
  if (!pending_.empty() && !failed_) {
    const Status status = Accept(std::move(request));
    if (!status.ok()) Fail(status);
  } else if (early_.size() <= kMaxDataQps) {
    early_.push_back(std::move(request));
  } else {
    Reject(std::move(request.id), "there are too many requests");
  }
}

void CmConnector::Reject(CmIdHandle id, const std::string& why) {
  std::string suffix;
  if (strangers_.Allow(&suffix)) {
    LOG(WARNING) << "a connection request of librdmacm while waiting for " << options_.peer << " was rejected: " << why
                 << suffix;
  }
  LOG_IF(ERROR, verbs_->CmReject(id.get()) != 0) << "librdmacm can't reject it: " << std::strerror(errno);
}

Status CmConnector::Accept(Request request) {
  const size_t index = request.hello.index;
  if (request.hello.epoch != theirs_.epoch || index >= pending_.size() || pending_[index].id ||
      request.qp_number != theirs_.qps[index].number) {
    Reject(std::move(request.id), Format("queue pair %zu, qp %#x, epoch %u: not what %s said it would connect", index,
                                         request.qp_number, request.hello.epoch, options_.peer.c_str()));
    return OkStatus();
  }
  PendingQueuePair& pending = pending_[index];
  pending.id = std::move(request.id);
  HP_RETURN_IF_ERROR(CheckDevice(pending.id.get()));
  HP_RETURN_IF_ERROR(pending.qp->Connect(pending.id.get(), mtu_, device_->settings()));
  std::array<std::byte, kCmHelloBytes> hello;
  rdma_conn_param parameters = Parameters(pending, hello.data());
  if (verbs_->CmAccept(pending.id.get(), &parameters) == 0) return OkStatus();
  return FailedPrecondition("librdmacm, queue pair %zu: accept failed: %s", index, std::strerror(errno));
}

// --- Ends

void CmConnector::Up(PendingQueuePair* pending) {
  pending->up = true;
  if (!std::all_of(pending_.begin(), pending_.end(), [](const PendingQueuePair& each) { return each.up; })) return;
  timer_.cancel();
  listener_.reset();  // nobody else has any business there
  if (const auto connected = std::exchange(callbacks_.connected, {})) connected(OkStatus());
}

void CmConnector::Fail(const Status& status) {
  failed_ = true;
  timer_.cancel();
  if (const auto connected = std::exchange(callbacks_.connected, {})) {
    callbacks_.ended = {};
    return connected(status);
  }
  if (const auto ended = std::exchange(callbacks_.ended, {})) ended(status.message());
}

void CmConnector::OnDeadline() {
  std::string missing;
  for (const PendingQueuePair& pending : pending_) {
    if (!pending.up) missing += Format(" %zu", IndexOf(&pending));
  }
  Fail(DeadlineExceeded("librdmacm did not connect queue pairs%s within %g s", missing.c_str(),
                        options_.deadline_ms / 1e3));
}

}  // namespace hp
