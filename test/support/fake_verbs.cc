#include "test/support/fake_verbs.h"

#include "base/format.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hp {
namespace {

void TakeOne(int fd) {
  uint64_t one;
  if (read(fd, &one, sizeof(one)) < 0 && errno != EAGAIN) std::abort();
}

int NewEventFd() { return eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC); }

}  // namespace

FakeVerbs::Device FakeVerbs::Roce() {
  Device device;
  const Gid link_local = GidOfAddress("fe80::1"), loopback = GidOfAddress("127.0.0.1");
  device.gids = {{link_local, 0, 1}, {link_local, 1, 2}, {loopback, 2, 1}, {loopback, 3, 2}};
  return device;
}

FakeVerbs::FakeVerbs(FakeFabric* fabric, std::vector<Device> devices) : fabric_(fabric), devices_(std::move(devices)) {
  for (const Device& device : devices_) {
    device_objects_.push_back(std::make_unique<ibv_device>());
    std::strncpy(device_objects_.back()->name, device.name.c_str(), sizeof(ibv_device::name) - 1);
    cm_contexts_.push_back(std::make_unique<ibv_context>());
    cm_contexts_.back()->device = device_objects_.back().get();
  }
}

FakeVerbs::~FakeVerbs() {
  MutexLock lock(&fabric_->mutex_);
  if (live_ != 0) fabric_->Fault(Format("%d objects are left over", live_));
}

std::vector<std::string> FakeVerbs::calls() {
  MutexLock lock(&fabric_->mutex_);
  return calls_;
}

int FakeVerbs::live() {
  MutexLock lock(&fabric_->mutex_);
  return live_;
}

std::vector<FakeMr> FakeVerbs::registrations() {
  MutexLock lock(&fabric_->mutex_);
  return registrations_;
}

std::vector<ibv_qp_attr> FakeVerbs::modifications() {
  MutexLock lock(&fabric_->mutex_);
  return modifications_;
}

std::vector<uint32_t> FakeVerbs::qp_numbers() {
  MutexLock lock(&fabric_->mutex_);
  std::vector<uint32_t> numbers;
  for (const auto& [number, qp] : fabric_->qps_) {
    if (qp->host == this) numbers.push_back(number);
  }
  return numbers;
}

void FakeVerbs::SetGids(const std::vector<GidEntry>& gids) {
  MutexLock lock(&fabric_->mutex_);
  for (Device& device : devices_) device.gids = gids;
}

bool FakeVerbs::Fails(const char* call) {
  const int number = static_cast<int>(calls_.size());
  calls_.push_back(call);
  if (number != fail_call_) return false;
  errno = ENOMEM;
  return true;
}

FakeVerbs::Device& FakeVerbs::DeviceOf(ibv_context* context) {
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (device_objects_[i].get() == context->device) return devices_[i];
  }
  std::abort();
}

int FakeVerbs::Destroy(const char* what, int users) {
  if (users == 0) {
    --live_;
    return 0;
  }
  fabric_->Fault(Format("%s with %d users was destroyed", what, users));
  return EBUSY;
}

// --- Devices

ibv_device** FakeVerbs::GetDeviceList(int* count) {
  MutexLock lock(&fabric_->mutex_);
  if (Fails("GetDeviceList")) return nullptr;
  ++live_;
  auto** list = new ibv_device*[device_objects_.size() + 1]();
  for (size_t i = 0; i < device_objects_.size(); ++i) list[i] = device_objects_[i].get();
  *count = static_cast<int>(device_objects_.size());
  return list;
}

void FakeVerbs::FreeDeviceList(ibv_device** list) {
  MutexLock lock(&fabric_->mutex_);
  --live_;
  delete[] list;
}

ibv_context* FakeVerbs::OpenDevice(ibv_device* device) {
  MutexLock lock(&fabric_->mutex_);
  if (Fails("OpenDevice")) return nullptr;
  ++live_;
  auto* context = new FakeContext();
  context->device = device;
  context->async_fd = NewEventFd();
  context->host = this;
  return context;
}

int FakeVerbs::CloseDevice(ibv_context* context) {
  MutexLock lock(&fabric_->mutex_);
  close(context->async_fd);
  delete static_cast<FakeContext*>(context);
  return Destroy("a context", 0);
}

int FakeVerbs::QueryDevice(ibv_context* context, ibv_device_attr* attributes) {
  MutexLock lock(&fabric_->mutex_);
  if (Fails("QueryDevice")) return EIO;
  *attributes = {};
  attributes->phys_port_cnt = 1;
  attributes->max_srq = 1024;
  attributes->max_srq_wr = 1 << 15;
  attributes->max_qp_wr = 1 << 14;
  attributes->max_cqe = DeviceOf(context).max_cqe;
  return 0;
}

int FakeVerbs::QueryPort(ibv_context* context, uint8_t, ibv_port_attr* attributes) {
  MutexLock lock(&fabric_->mutex_);
  if (Fails("QueryPort")) return EIO;
  const Device& device = DeviceOf(context);
  *attributes = {};
  attributes->state = device.state;
  attributes->active_mtu = device.mtu;
  attributes->max_msg_sz = device.max_message;
  attributes->lid = device.lid;
  attributes->link_layer = device.ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
  attributes->gid_tbl_len = 16;
  return 0;
}

int FakeVerbs::QueryGid(ibv_context* context, uint8_t port, uint32_t index, ibv_gid_entry* entry) {
  MutexLock lock(&fabric_->mutex_);
  for (const GidEntry& known : DeviceOf(context).gids) {
    if (known.index != index) continue;
    *entry = {};
    std::memcpy(entry->gid.raw, known.gid.data(), known.gid.size());
    entry->gid_index = index;
    entry->port_num = port;
    entry->gid_type = known.roce_version == 2   ? IBV_GID_TYPE_ROCE_V2
                      : known.roce_version == 1 ? IBV_GID_TYPE_ROCE_V1
                                                : IBV_GID_TYPE_IB;
    return 0;
  }
  return ENODATA;
}

int FakeVerbs::GetAsyncEvent(ibv_context* context, ibv_async_event* event) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeContext*>(context);
  TakeOne(own->async_fd);
  if (own->events.empty()) return -1;
  *event = own->events.front();
  own->events.pop_front();
  return 0;
}

// --- Memory

ibv_pd* FakeVerbs::AllocPd(ibv_context* context) {
  MutexLock lock(&fabric_->mutex_);
  if (Fails("AllocPd")) return nullptr;
  ++live_;
  auto* pd = new FakePd();
  pd->context = context;
  return pd;
}

int FakeVerbs::DeallocPd(ibv_pd* pd) {
  MutexLock lock(&fabric_->mutex_);
  const int error = Destroy("a protection domain", static_cast<FakePd*>(pd)->users);
  if (error == 0) delete static_cast<FakePd*>(pd);
  return error;
}

ibv_mr* FakeVerbs::Register(ibv_pd* pd, uint64_t address, size_t bytes, int access, int dma_buf, uint64_t offset) {
  ++live_;
  auto* mr = new FakeMr();
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = reinterpret_cast<void*>(address);
  mr->length = bytes;
  mr->lkey = mr->rkey = fabric_->next_number_++;
  mr->access = access;
  mr->dma_buf = dma_buf;
  mr->offset = offset;
  ++static_cast<FakePd*>(pd)->users;
  if ((access & IBV_ACCESS_REMOTE_WRITE) && !(access & IBV_ACCESS_LOCAL_WRITE)) {
    fabric_->Fault("memory is writable remotely and not locally");
  }
  fabric_->mrs_[mr->lkey] = mr;
  registrations_.push_back(*mr);
  return mr;
}

ibv_mr* FakeVerbs::RegMr(ibv_pd* pd, void* address, size_t bytes, int access) {
  MutexLock lock(&fabric_->mutex_);
  if (Fails("RegMr")) return nullptr;
  return Register(pd, reinterpret_cast<uint64_t>(address), bytes, access, -1, 0);
}

ibv_mr* FakeVerbs::RegDmabufMr(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access) {
  MutexLock lock(&fabric_->mutex_);
  if (Fails("RegDmabufMr")) return nullptr;
  if (!DeviceOf(pd->context).takes_dma_buf) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return Register(pd, iova, bytes, access, fd, offset);
}

int FakeVerbs::DeregMr(ibv_mr* mr) {
  MutexLock lock(&fabric_->mutex_);
  fabric_->mrs_.erase(mr->lkey);
  --static_cast<FakePd*>(mr->pd)->users;
  delete static_cast<FakeMr*>(mr);
  return Destroy("a memory region", 0);
}

// --- Completions

ibv_comp_channel* FakeVerbs::CreateCompChannel(ibv_context* context) {
  MutexLock lock(&fabric_->mutex_);
  if (Fails("CreateCompChannel")) return nullptr;
  ++live_;
  auto* channel = new FakeChannel();
  channel->context = context;
  channel->fd = NewEventFd();
  return channel;
}

int FakeVerbs::DestroyCompChannel(ibv_comp_channel* channel) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeChannel*>(channel);
  const int error = Destroy("a completion channel", own->users);
  if (error != 0) return error;
  close(own->fd);
  delete own;
  return 0;
}

ibv_cq* FakeVerbs::CreateCq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel) {
  MutexLock lock(&fabric_->mutex_);
  if (Fails("CreateCq")) return nullptr;
  ++live_;
  auto* cq = new FakeCq();
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = cq_context;
  cq->cqe = entries;
  if (channel != nullptr) ++static_cast<FakeChannel*>(channel)->users;
  return cq;
}

int FakeVerbs::DestroyCq(ibv_cq* cq) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeCq*>(cq);
  if (own->unacked > 0) fabric_->Fault("a completion queue with unacknowledged events was destroyed: this hangs");
  const int error = Destroy("a completion queue", own->users);
  if (error != 0) return error;
  if (auto* channel = static_cast<FakeChannel*>(own->channel)) {
    --channel->users;
    std::erase(channel->events, own);
  }
  delete own;
  return 0;
}

int FakeVerbs::ReqNotifyCq(ibv_cq* cq) {
  MutexLock lock(&fabric_->mutex_);
  static_cast<FakeCq*>(cq)->armed = true;
  return 0;
}

int FakeVerbs::GetCqEvent(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeChannel*>(channel);
  TakeOne(own->fd);
  if (own->events.empty()) return -1;
  FakeCq* ready = own->events.front();
  own->events.pop_front();
  ++ready->unacked;
  *cq = ready;
  *cq_context = ready->cq_context;
  return 0;
}

void FakeVerbs::AckCqEvents(ibv_cq* cq, unsigned count) {
  MutexLock lock(&fabric_->mutex_);
  static_cast<FakeCq*>(cq)->unacked -= static_cast<int>(count);
}

int FakeVerbs::PollCq(ibv_cq* cq, int entries, ibv_wc* completions) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeCq*>(cq);
  int taken = 0;
  for (; taken < entries && !own->entries.empty(); ++taken) {
    completions[taken] = own->entries.front();
    own->entries.pop_front();
  }
  return taken;
}

// --- Queues

ibv_srq* FakeVerbs::CreateSrq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  MutexLock lock(&fabric_->mutex_);
  if (Fails("CreateSrq")) return nullptr;
  ++live_;
  auto* srq = new FakeSrq();
  srq->context = pd->context;
  srq->pd = pd;
  srq->most = attributes->attr.max_wr;
  ++static_cast<FakePd*>(pd)->users;
  return srq;
}

int FakeVerbs::DestroySrq(ibv_srq* srq) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeSrq*>(srq);
  const int error = Destroy("a shared receive queue", own->users);
  if (error != 0) return error;
  --static_cast<FakePd*>(own->pd)->users;
  delete own;
  return 0;
}

int FakeVerbs::PostSrqRecv(ibv_srq* srq, ibv_recv_wr* list, ibv_recv_wr** bad) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeSrq*>(srq);
  ++fabric_->counts_.receive_posts;
  for (; list != nullptr; list = list->next) {
    *bad = list;
    if (own->receives.size() >= own->most) return ENOMEM;
    own->receives.push_back({list->wr_id, {}});
    if (list->num_sge > 0) own->receives.back().range = *list->sg_list;
  }
  fabric_->ArriveAll();  // somebody may have waited for them
  return 0;
}

ibv_qp* FakeVerbs::CreateQp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  MutexLock lock(&fabric_->mutex_);
  if (attributes->cap.max_inline_data > DeviceOf(pd->context).max_inline) {
    errno = EINVAL;
    return nullptr;
  }
  if (Fails("CreateQp")) return nullptr;
  ++live_;
  auto* qp = new FakeQp();
  qp->context = pd->context;
  qp->qp_context = attributes->qp_context;
  qp->pd = pd;
  qp->send_cq = attributes->send_cq;
  qp->recv_cq = attributes->recv_cq;
  qp->srq = attributes->srq;
  qp->qp_num = fabric_->next_number_++;
  qp->state = IBV_QPS_RESET;
  qp->cap = attributes->cap;
  qp->host = this;
  ++static_cast<FakePd*>(pd)->users;
  ++static_cast<FakeCq*>(qp->send_cq)->users;
  if (qp->srq != nullptr) ++static_cast<FakeSrq*>(qp->srq)->users;
  fabric_->qps_[qp->qp_num] = qp;
  return qp;
}

int FakeVerbs::CheckModify(FakeQp* qp, const ibv_qp_attr& attributes, int mask) {
  const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  const int rts =
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  bool fits = attributes.qp_state == IBV_QPS_ERR && mask == IBV_QP_STATE;
  fits |= attributes.qp_state == IBV_QPS_INIT && qp->state == IBV_QPS_RESET && mask == init;
  fits |= attributes.qp_state == IBV_QPS_RTR && qp->state == IBV_QPS_INIT && mask == rtr &&
          attributes.path_mtu <= DeviceOf(qp->context).mtu;
  fits |= attributes.qp_state == IBV_QPS_RTS && qp->state == IBV_QPS_RTR && mask == rts;
  if (!fits) fabric_->Fault(Format("a queue pair in state %d can't become %d", qp->state, attributes.qp_state));
  return fits ? 0 : EINVAL;
}

int FakeVerbs::ModifyQp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeQp*>(qp);
  if (attributes->qp_state != IBV_QPS_ERR && Fails("ModifyQp")) return ENOMEM;
  if (const int error = CheckModify(own, *attributes, mask)) return error;
  modifications_.push_back(*attributes);
  if (attributes->qp_state == IBV_QPS_ERR) {
    fabric_->ToError(own, IBV_EVENT_QP_LAST_WQE_REACHED);
    return 0;
  }
  own->state = attributes->qp_state;
  if (own->state == IBV_QPS_INIT) own->access = static_cast<int>(attributes->qp_access_flags);
  if (own->state == IBV_QPS_RTR) own->attributes = *attributes;
  if (own->state == IBV_QPS_RTS) own->attributes.sq_psn = attributes->sq_psn;
  return 0;
}

int FakeVerbs::DestroyQp(ibv_qp* qp) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeQp*>(qp);
  fabric_->qps_.erase(own->qp_num);
  --static_cast<FakePd*>(own->pd)->users;
  --static_cast<FakeCq*>(own->send_cq)->users;
  if (own->srq != nullptr) --static_cast<FakeSrq*>(own->srq)->users;
  auto* context = static_cast<FakeContext*>(own->context);
  std::erase_if(context->events, [own](const ibv_async_event& event) { return event.element.qp == own; });
  delete own;
  return Destroy("a queue pair", 0);
}

int FakeVerbs::PostSend(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad) {
  MutexLock lock(&fabric_->mutex_);
  auto* own = static_cast<FakeQp*>(qp);
  ++fabric_->counts_.posts;
  for (; list != nullptr; list = list->next) {
    *bad = list;
    ++fabric_->counts_.requests;
    if (own->state != IBV_QPS_RTS && own->state != IBV_QPS_ERR) return EINVAL;
    if (own->requests.size() >= own->cap.max_send_wr) return ENOMEM;
    FakeRequest request{.wr = *list, .ranges = {}, .inlined = {}};
    request.ranges.assign(list->sg_list, list->sg_list + list->num_sge);
    request.is_inlined = (list->send_flags & IBV_SEND_INLINE) != 0;
    if (request.is_inlined) {
      const auto* from = reinterpret_cast<const std::byte*>(list->sg_list->addr);
      if (list->sg_list->length > own->cap.max_inline_data) return EINVAL;
      request.inlined.assign(from, from + list->sg_list->length);
    }
    own->requests.push_back(std::move(request));
  }
  fabric_->ArriveAll();
  return 0;
}

}  // namespace hp
