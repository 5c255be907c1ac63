// What happens to requests between the hosts of FakeVerbs.
#include "base/format.h"
#include "test/support/fake_verbs.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace hp {
namespace {

void Ring(int fd) {
  const uint64_t one = 1;
  if (write(fd, &one, sizeof(one)) < 0) std::abort();
}

size_t BytesOf(const FakeRequest& request) {
  size_t bytes = 0;
  for (const ibv_sge& range : request.ranges) bytes += range.length;
  return bytes;
}

bool IsWrite(const ibv_send_wr& wr) {
  return wr.opcode == IBV_WR_RDMA_WRITE || wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

ibv_wc_opcode CompletionOf(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND ? IBV_WC_SEND : opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
}

}  // namespace

FakeFabric::FakeFabric(const Options& options) : options_(options), random_(options.seed) {
  if (options.delayed) wire_ = Thread("wire", [this] { Wire(); });
}

FakeFabric::~FakeFabric() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  wire_.Join();
}

void FakeFabric::Hold() {
  MutexLock lock(&mutex_);
  held_ = true;
}

void FakeFabric::Release() {
  MutexLock lock(&mutex_);
  held_ = false;
  ArriveAll();
}

bool FakeFabric::CouldWrite(uint32_t rkey, uint64_t address, size_t bytes) {
  MutexLock lock(&mutex_);
  const FakeMr* mr = MrOf(nullptr, rkey, address, bytes);
  return mr != nullptr && (mr->access & IBV_ACCESS_REMOTE_WRITE);
}

void FakeFabric::Break(uint32_t qp_number) {
  MutexLock lock(&mutex_);
  ToError(qps_.at(qp_number), IBV_EVENT_QP_FATAL);
}

void FakeFabric::Raise(uint32_t qp_number, ibv_event_type event) {
  MutexLock lock(&mutex_);
  RaiseEvent(qps_.at(qp_number), event);
}

void FakeFabric::EndRequest(uint32_t qp_number, ibv_wc_status status) {
  MutexLock lock(&mutex_);
  FakeQp* qp = qps_.at(qp_number);
  const FakeRequest request = qp->requests.front();
  qp->requests.pop_front();
  Complete(qp, request, status);
}

bool FakeFabric::Heard(uint32_t qp_number) {
  MutexLock lock(&mutex_);
  FakeQp* qp = qps_.at(qp_number);
  return static_cast<FakeCq*>(qp->send_cq)->entries.empty() && static_cast<FakeContext*>(qp->context)->events.empty();
}

std::vector<std::string> FakeFabric::faults() {
  MutexLock lock(&mutex_);
  return faults_;
}

FakeFabric::Counts FakeFabric::counts() {
  MutexLock lock(&mutex_);
  return counts_;
}

void FakeFabric::ResetCounts() {
  MutexLock lock(&mutex_);
  counts_ = {};
}

void FakeFabric::Wire() {
  MutexLock lock(&mutex_);
  while (!stopping_) {
    std::vector<FakeQp*> ready;
    for (const auto& [number, qp] : qps_) {
      if (!qp->requests.empty()) ready.push_back(qp);
    }
    bool arrived = false;
    if (!held_ && !ready.empty()) {
      std::shuffle(ready.begin(), ready.end(), random_);
      for (FakeQp* qp : ready) {
        arrived = ArriveOne(qp);
        if (arrived) break;  // one, and then what others do may come first
      }
    }
    if (arrived) {
      mutex_.Unlock();
      std::this_thread::yield();
      mutex_.Lock();
    } else {
      changed_.Wait(&mutex_);
    }
  }
}

void FakeFabric::ArriveAll() {
  if (held_) return;
  changed_.SignalAll();
  if (options_.delayed) return;
  for (bool arrived = true; arrived;) {
    arrived = false;
    for (const auto& [number, qp] : qps_) {
      while (!qp->requests.empty() && ArriveOne(qp)) arrived = true;
    }
  }
}

/// @return whether the first request of `qp` is done with; else it waits for a receive request.
bool FakeFabric::ArriveOne(FakeQp* qp) {
  const FakeRequest request = qp->requests.front();
  if (qp->state == IBV_QPS_ERR) {
    qp->requests.pop_front();
    Complete(qp, request, IBV_WC_WR_FLUSH_ERR);
    return true;
  }
  return Arrive(qp, request);
}

FakeQp* FakeFabric::PeerOf(const FakeQp& qp) {
  const auto it = qps_.find(qp.attributes.dest_qp_num);
  if (it == qps_.end()) return nullptr;
  FakeQp* peer = it->second;
  const bool listens = (peer->state == IBV_QPS_RTR || peer->state == IBV_QPS_RTS) &&
                       peer->attributes.dest_qp_num == qp.qp_num && peer->attributes.rq_psn == qp.attributes.sq_psn;
  Gid wanted;
  std::memcpy(wanted.data(), qp.attributes.ah_attr.grh.dgid.raw, wanted.size());
  const auto& gids = peer->host->DeviceOf(peer->context).gids;
  const bool there = !qp.attributes.ah_attr.is_global ||
                     std::any_of(gids.begin(), gids.end(), [&](const GidEntry& gid) { return gid.gid == wanted; });
  return listens && there ? peer : nullptr;
}

FakeMr* FakeFabric::MrOf(const ibv_pd* pd, uint32_t key, uint64_t address, size_t bytes) {
  const auto it = mrs_.find(key);
  if (it == mrs_.end()) return nullptr;
  FakeMr* mr = it->second;
  const auto begin = reinterpret_cast<uint64_t>(mr->addr);
  const bool inside = address >= begin && address + bytes <= begin + mr->length;
  return inside && (pd == nullptr || mr->pd == pd) ? mr : nullptr;
}

ibv_wc_status FakeFabric::Gather(const FakeQp& qp, const FakeRequest& request, std::vector<std::byte>* bytes) {
  if (request.is_inlined) {
    *bytes = request.inlined;
    return IBV_WC_SUCCESS;
  }
  for (const ibv_sge& range : request.ranges) {
    if (MrOf(qp.pd, range.lkey, range.addr, range.length) == nullptr) return IBV_WC_LOC_PROT_ERR;
    const auto* from = reinterpret_cast<const std::byte*>(range.addr);
    bytes->insert(bytes->end(), from, from + range.length);
  }
  return IBV_WC_SUCCESS;
}

bool FakeFabric::Arrive(FakeQp* qp, const FakeRequest& request) {
  const auto fail = [&](ibv_wc_status status) HP_REQUIRES(mutex_) {
    qp->requests.pop_front();
    Complete(qp, request, status);
    ToError(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
    return true;
  };
  const WireFault fault = on_request ? on_request(*qp, request.wr) : WireFault{};
  if (fault.kind == WireFault::kFail) return fail(fault.status);
  if (fault.kind == WireFault::kHold) return false;
  FakeQp* peer = PeerOf(*qp);
  if (peer == nullptr) return fail(IBV_WC_RETRY_EXC_ERR);
  const ibv_send_wr& wr = request.wr;
  const size_t size = BytesOf(request);
  const bool takes_receive = wr.opcode == IBV_WR_SEND || wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  auto* srq = static_cast<FakeSrq*>(peer->srq);
  if (takes_receive && srq->receives.empty()) return false;  // receiver not ready
  if (wr.opcode == IBV_WR_RDMA_READ) {
    const FakeMr* mr = MrOf(peer->pd, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr, size);
    if (mr == nullptr || !(mr->access & peer->access & IBV_ACCESS_REMOTE_READ)) return fail(IBV_WC_REM_ACCESS_ERR);
  }
  std::vector<std::byte> bytes;
  if (wr.opcode != IBV_WR_RDMA_READ) {
    if (const ibv_wc_status status = Gather(*qp, request, &bytes); status != IBV_WC_SUCCESS) return fail(status);
  }
  if (IsWrite(wr) && size > 0) {
    const FakeMr* mr = MrOf(peer->pd, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr, size);
    if (mr == nullptr || !(mr->access & peer->access & IBV_ACCESS_REMOTE_WRITE)) {
      ToError(peer, IBV_EVENT_QP_ACCESS_ERR);
      return fail(IBV_WC_REM_ACCESS_ERR);
    }
    std::memcpy(reinterpret_cast<void*>(wr.wr.rdma.remote_addr), bytes.data(), bytes.size());
  }
  if (takes_receive) {
    const FakeSrq::Receive receive = srq->receives.front();
    srq->receives.pop_front();
    ibv_wc completion = {};
    completion.wr_id = receive.id;
    completion.qp_num = peer->qp_num;
    completion.byte_len = static_cast<uint32_t>(size);
    completion.opcode = wr.opcode == IBV_WR_SEND ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
    completion.imm_data = wr.imm_data;
    if (wr.opcode == IBV_WR_SEND) {
      if (size > (receive.range ? receive.range->length : 0)) {
        completion.status = IBV_WC_LOC_LEN_ERR;
        Push(static_cast<FakeCq*>(peer->recv_cq), completion);
        ToError(peer, IBV_EVENT_QP_FATAL);
        return fail(IBV_WC_REM_INV_REQ_ERR);
      }
      if (size > 0) std::memcpy(reinterpret_cast<void*>(receive.range->addr), bytes.data(), bytes.size());
    }
    Push(static_cast<FakeCq*>(peer->recv_cq), completion);
  }
  qp->requests.pop_front();
  if (fault.kind != WireFault::kDropCompletion && (wr.send_flags & IBV_SEND_SIGNALED)) {
    Complete(qp, request, IBV_WC_SUCCESS);
  }
  return true;
}

void FakeFabric::Complete(FakeQp* qp, const FakeRequest& request, ibv_wc_status status) {
  ibv_wc completion = {};
  completion.wr_id = request.wr.wr_id;
  completion.status = status;
  completion.qp_num = qp->qp_num;
  // Of an error nothing else is defined: make sure that nobody relies on it.
  completion.opcode = status == IBV_WC_SUCCESS ? CompletionOf(request.wr.opcode) : IBV_WC_RECV_RDMA_WITH_IMM;
  Push(static_cast<FakeCq*>(qp->send_cq), completion);
}

void FakeFabric::ToError(FakeQp* qp, ibv_event_type event) {
  if (qp->state == IBV_QPS_ERR) return;
  qp->state = IBV_QPS_ERR;
  for (const FakeRequest& request : std::exchange(qp->requests, {})) Complete(qp, request, IBV_WC_WR_FLUSH_ERR);
  RaiseEvent(qp, event);
}

void FakeFabric::RaiseEvent(FakeQp* qp, ibv_event_type event) {
  auto* context = static_cast<FakeContext*>(qp->context);
  ibv_async_event raised = {};
  raised.element.qp = qp;
  raised.event_type = event;
  context->events.push_back(raised);
  Ring(context->async_fd);
}

void FakeFabric::Push(FakeCq* cq, const ibv_wc& completion) {
  ++counts_.completions;
  if (cq->entries.size() >= static_cast<size_t>(cq->cqe)) {
    ++counts_.overruns;
    return;  // as software RDMA does: silently
  }
  cq->entries.push_back(completion);
  if (!cq->armed || cq->channel == nullptr) return;
  cq->armed = false;
  auto* channel = static_cast<FakeChannel*>(cq->channel);
  channel->events.push_back(cq);
  Ring(channel->fd);
}

}  // namespace hp
