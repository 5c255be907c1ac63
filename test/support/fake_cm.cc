// librdmacm as FakeVerbs has it: identifiers and events between the hosts of a fabric.
#include "base/format.h"
#include "test/support/fake_verbs.h"

#include <netinet/in.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

namespace hp {
namespace {

constexpr size_t kPrivateBytes = 56;  // it pads what was given
constexpr int kNobodyListens = 8, kRejected = 28;
constexpr int kKernelMask = 7 << 21;  // what the kernel names on Ethernet and ibv_modify_qp does not take

std::pair<Gid, uint16_t> Parse(const sockaddr* address) {
  Gid gid = {};
  if (address->sa_family == AF_INET) {
    const auto* ip = reinterpret_cast<const sockaddr_in*>(address);
    gid[10] = gid[11] = 0xff;
    std::memcpy(&gid[12], &ip->sin_addr, 4);
    return {gid, ntohs(ip->sin_port)};
  }
  const auto* ip = reinterpret_cast<const sockaddr_in6*>(address);
  std::memcpy(gid.data(), &ip->sin6_addr, gid.size());
  return {gid, ntohs(ip->sin6_port)};
}

}  // namespace

// --- Events

void FakeFabric::QueueCm(std::unique_ptr<FakeCmEvent> event) {
  auto* channel = static_cast<FakeCmChannel*>(event->counted->channel);
  channel->events.push_back(std::move(event));
  const uint64_t one = 1;
  if (write(channel->fd, &one, sizeof(one)) < 0) std::abort();
}

void FakeFabric::TellCm(FakeCmId* to, rdma_cm_event_type type, int status, const rdma_conn_param* parameters) {
  auto event = std::make_unique<FakeCmEvent>();
  event->id = to;
  event->listen_id = to->asked;
  event->counted = type == RDMA_CM_EVENT_CONNECT_REQUEST ? to->asked : to;
  event->event = type;
  event->status = status;
  if (parameters != nullptr) {
    const auto* bytes = static_cast<const std::byte*>(parameters->private_data);
    event->data.assign(bytes, bytes + parameters->private_data_len);
    event->data.resize(kPrivateBytes);
    event->param.conn.qp_num = parameters->qp_num;
  }
  const CmFault fault = on_cm_event ? on_cm_event(*to, event.get()) : CmFault::kNone;
  event->param.conn.private_data = event->data.data();
  event->param.conn.private_data_len = static_cast<uint8_t>(event->data.size());
  if (fault == CmFault::kDrop && type == RDMA_CM_EVENT_CONNECT_REQUEST) {
    to->other->other = nullptr;  // who asked hears nothing
    to->other = nullptr;
    ForgetCmId(to);
  }
  if (fault == CmFault::kNone) QueueCm(std::move(event));
  if (fault == CmFault::kHold) held_cm_events_.push_back(std::move(event));
}

size_t FakeFabric::held_cm_events() {
  MutexLock lock(&mutex_);
  return held_cm_events_.size();
}

void FakeFabric::ReleaseCmEvents() {
  MutexLock lock(&mutex_);
  for (auto& event : std::exchange(held_cm_events_, {})) QueueCm(std::move(event));
}

std::vector<uint16_t> FakeFabric::cm_ports() {
  MutexLock lock(&mutex_);
  std::vector<uint16_t> ports;
  for (const FakeCmId* id : cm_ids_) {
    if (id->state == FakeCmId::kListens) ports.push_back(id->port);
  }
  return ports;
}

void FakeFabric::RaiseCmEvent(uint32_t qp_number, rdma_cm_event_type type) {
  MutexLock lock(&mutex_);
  for (FakeCmId* id : cm_ids_) {
    if (id->qp_number == qp_number) TellCm(id, type, 0, nullptr);
  }
}

int FakeVerbs::CmGetEvent(rdma_event_channel* channel, rdma_cm_event** event) {
  auto* own = static_cast<FakeCmChannel*>(channel);
  uint64_t one;
  if (read(own->fd, &one, sizeof(one)) < 0) return -1;  // this blocks if nobody asked for something else
  MutexLock lock(&fabric_->mutex_);
  if (own->events.empty()) {  // it was told of an identifier that is no more
    errno = EAGAIN;
    return -1;
  }
  FakeCmEvent* taken = own->events.front().release();
  own->events.pop_front();
  ++taken->counted->unacked;
  *event = taken;
  return 0;
}

int FakeVerbs::CmAckEvent(rdma_cm_event* event) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeCmEvent*>(event);
  --own->counted->unacked;
  delete own;
  return 0;
}

// --- Channels and identifiers

rdma_event_channel* FakeVerbs::CmCreateEventChannel() {
  MutexLock lock(&fabric_->mutex_);
  if (Fails("CmCreateEventChannel")) return nullptr;
  ++live_;
  auto* channel = new FakeCmChannel();
  channel->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);  // whoever polls it makes it non-blocking
  return channel;
}

int FakeVerbs::CmDestroyEventChannel(rdma_event_channel* channel) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeCmChannel*>(channel);
  if (Destroy("an event channel", own->users) != 0) return 0;
  close(own->fd);
  delete own;
  return 0;
}

FakeCmId* FakeFabric::NewCmId(FakeVerbs* host, rdma_event_channel* channel) {
  ++host->live_;
  auto* id = new FakeCmId();
  id->host = host;
  id->channel = channel;
  id->psn = next_number_++;
  ++static_cast<FakeCmChannel*>(channel)->users;
  cm_ids_.insert(id);
  return id;
}

rdma_cm_id* FakeVerbs::CmCreateId(rdma_event_channel* channel, void* id_context) {
  MutexLock lock(&fabric_->mutex_);
  if (Fails("CmCreateId")) return nullptr;
  FakeCmId* id = fabric_->NewCmId(this, channel);
  id->context = id_context;
  return id;
}

void FakeFabric::EndCm(FakeCmId* id) {
  FakeCmId* other = id->other;
  if (other == nullptr) return;
  id->other = other->other = nullptr;
  const bool was_up = other->state == FakeCmId::kUp;
  const bool refused = other->state == FakeCmId::kRequested;
  if (other->state == FakeCmId::kOver || other->state == FakeCmId::kAsked) return;
  other->state = FakeCmId::kOver;
  if (was_up || id->state == FakeCmId::kUp) return TellCm(other, RDMA_CM_EVENT_DISCONNECTED, 0, nullptr);
  if (refused) return TellCm(other, RDMA_CM_EVENT_REJECTED, kRejected, nullptr);
  TellCm(other, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, nullptr);
}

int FakeVerbs::CmDestroyId(rdma_cm_id* id) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeCmId*>(id);
  if (own->unacked > 0) fabric_->Fault("an identifier with unacknowledged events was destroyed: this hangs");
  fabric_->EndCm(own);
  auto* channel = static_cast<FakeCmChannel*>(own->channel);
  std::vector<FakeCmId*> unheard;  // requests that nobody took
  const auto forget = [&](const std::unique_ptr<FakeCmEvent>& event) {
    if (event->counted != own) return false;
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) unheard.push_back(static_cast<FakeCmId*>(event->id));
    return true;
  };
  std::erase_if(channel->events, forget);
  std::erase_if(fabric_->held_cm_events_, forget);
  unheard.push_back(own);
  for (FakeCmId* gone : unheard) {
    fabric_->EndCm(gone);
    fabric_->ForgetCmId(gone);
  }
  return 0;
}

void FakeFabric::ForgetCmId(FakeCmId* id) {
  cm_ids_.erase(id);
  --static_cast<FakeCmChannel*>(id->channel)->users;
  --id->host->live_;
  delete id;
}

bool FakeVerbs::GiveAddress(FakeCmId* id, const sockaddr* address) {
  id->address = Parse(address).first;
  for (size_t i = 0; i < devices_.size(); ++i) {
    const Device& device = devices_[i];
    const auto is_it = [&](const GidEntry& gid) { return gid.gid == id->address; };
    if (device.ip != id->address && std::none_of(device.gids.begin(), device.gids.end(), is_it)) continue;
    id->verbs = cm_contexts_[i].get();
    id->port_num = 1;
    id->port = ++fabric_->next_port_;
    return true;
  }
  errno = ENODEV;
  return false;
}

// --- The listening side

int FakeVerbs::CmBindAddr(rdma_cm_id* id, sockaddr* address) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeCmId*>(id);
  if (Fails("CmBindAddr") || !GiveAddress(own, address)) return -1;
  own->state = FakeCmId::kBound;
  return 0;
}

int FakeVerbs::CmListen(rdma_cm_id* id, int) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeCmId*>(id);
  if (Fails("CmListen")) return -1;
  if (own->state != FakeCmId::kBound) fabric_->Fault("an identifier listens that is bound to nothing");
  own->state = FakeCmId::kListens;
  return 0;
}

uint16_t FakeVerbs::CmGetSrcPort(rdma_cm_id* id) { return static_cast<FakeCmId*>(id)->port; }

int FakeVerbs::CmAccept(rdma_cm_id* id, rdma_conn_param* parameters) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeCmId*>(id);
  if (Fails("CmAccept")) return -1;
  const auto qp = fabric_->qps_.find(parameters->qp_num);
  if (own->state != FakeCmId::kAsked || qp == fabric_->qps_.end() || qp->second->state != IBV_QPS_RTS) {
    fabric_->Fault("a request was accepted ahead of its queue pair, or twice");
  }
  if (own->other == nullptr) {
    fabric_->TellCm(own, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, nullptr);
    return 0;
  }
  own->state = FakeCmId::kAccepted;
  own->qp_number = parameters->qp_num;
  own->other->state = FakeCmId::kAnswered;
  fabric_->TellCm(own->other, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, parameters);
  return 0;
}

int FakeVerbs::CmReject(rdma_cm_id* id) {
  MutexLock lock(&fabric_->mutex_);
  fabric_->EndCm(static_cast<FakeCmId*>(id));
  return 0;
}

// --- The connecting side

int FakeVerbs::CmResolveAddr(rdma_cm_id* id, sockaddr* source, sockaddr* destination, int) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeCmId*>(id);
  if (Fails("CmResolveAddr") || !GiveAddress(own, source)) return -1;
  std::tie(own->destination, own->destination_port) = Parse(destination);
  own->state = FakeCmId::kHasAddress;
  fabric_->TellCm(own, RDMA_CM_EVENT_ADDR_RESOLVED, 0, nullptr);
  return 0;
}

int FakeVerbs::CmResolveRoute(rdma_cm_id* id, int) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeCmId*>(id);
  if (Fails("CmResolveRoute")) return -1;
  if (own->state != FakeCmId::kHasAddress) fabric_->Fault("a route was asked for without an address");
  own->state = FakeCmId::kHasRoute;
  fabric_->TellCm(own, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, nullptr);
  return 0;
}

int FakeVerbs::CmConnect(rdma_cm_id* id, rdma_conn_param* parameters) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeCmId*>(id);
  if (Fails("CmConnect")) return -1;
  if (own->state != FakeCmId::kHasRoute) fabric_->Fault("a connection was asked for without a route");
  own->state = FakeCmId::kRequested;
  own->qp_number = parameters->qp_num;
  const auto listener = std::find_if(fabric_->cm_ids_.begin(), fabric_->cm_ids_.end(), [&](const FakeCmId* known) {
    return known->state == FakeCmId::kListens && known->port == own->destination_port &&
           known->address == own->destination;
  });
  if (listener == fabric_->cm_ids_.end()) {
    fabric_->TellCm(own, RDMA_CM_EVENT_REJECTED, kNobodyListens, nullptr);
    return 0;
  }
  FakeCmId* child = fabric_->NewCmId((*listener)->host, (*listener)->channel);
  child->asked = *listener;
  child->state = FakeCmId::kAsked;
  child->verbs = (*listener)->verbs;
  child->port_num = (*listener)->port_num;
  child->context = (*listener)->context;
  child->address = (*listener)->address;
  child->other = own;
  own->other = child;
  fabric_->TellCm(child, RDMA_CM_EVENT_CONNECT_REQUEST, 0, parameters);
  return 0;
}

int FakeVerbs::CmEstablish(rdma_cm_id* id) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeCmId*>(id);
  if (Fails("CmEstablish")) return -1;
  if (own->state == FakeCmId::kOver) {
    errno = EINVAL;
    return -1;
  }
  const auto qp = fabric_->qps_.find(own->qp_number);
  if (own->state != FakeCmId::kAnswered || qp == fabric_->qps_.end() || qp->second->state != IBV_QPS_RTS) {
    fabric_->Fault("a connection was established ahead of its queue pair");
  }
  own->state = FakeCmId::kUp;
  if (own->other == nullptr) return 0;
  own->other->state = FakeCmId::kUp;
  fabric_->TellCm(own->other, RDMA_CM_EVENT_ESTABLISHED, 0, nullptr);
  return 0;
}

int FakeVerbs::CmInitQpAttr(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeCmId*>(id);
  if (Fails("CmInitQpAttr")) return -1;
  const Device& device = DeviceOf(own->verbs);
  switch (attributes->qp_state) {
    case IBV_QPS_INIT:
      attributes->port_num = own->port_num;
      attributes->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
      *mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
      return 0;
    case IBV_QPS_RTR: {
      if (own->other == nullptr) break;
      const FakeCmId& active = own->asked != nullptr ? *own->other : *own;
      attributes->path_mtu = active.host->DeviceOf(active.verbs).mtu;
      attributes->dest_qp_num = own->other->qp_number;
      attributes->rq_psn = own->other->psn;
      attributes->max_dest_rd_atomic = 1;
      attributes->ah_attr.is_global = device.ethernet;
      attributes->ah_attr.dlid = own->other->host->DeviceOf(own->other->verbs).lid;
      std::memcpy(attributes->ah_attr.grh.dgid.raw, own->other->address.data(), own->other->address.size());
      *mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
              IBV_QP_MIN_RNR_TIMER | (device.ethernet ? kKernelMask : 0);
      return 0;
    }
    case IBV_QPS_RTS:
      attributes->sq_psn = own->psn;
      attributes->timeout = 20;
      *mask =
          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
      return 0;
    default:
      break;
  }
  errno = EINVAL;
  return -1;
}

}  // namespace hp
