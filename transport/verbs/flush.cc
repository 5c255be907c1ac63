// Why a read makes writes visible, and how.
//
// A receive completion may overtake the data of the write that it tells of on the way from the adapter to a GPU: they
// go to different targets (host memory and GPU memory), and PCIe orders only what goes to one. A read of the same
// memory by the same adapter pushes the posted writes ahead of itself. The read goes over a queue pair that is
// connected to itself, with its own protection domain, completion queue and key for each region, so that no peer ever
// gets a key to read with. Requests of one queue pair complete in order: `waiting_` is a queue, and completions need no
// id. Everything is made with the first flush, as most hosts never need one. An error fails all flushes that wait, and
// the next one begins anew.
#include "transport/verbs/flush.h"

#include "transport/verbs/wc_text.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace hp {
namespace {

constexpr char kWhat[] = "flush of GPU memory";

}  // namespace

VerbsFlush::VerbsFlush(std::shared_ptr<VerbsDevice> device, ProgressThread* progress)
    : device_(std::move(device)), progress_(progress) {}

Status VerbsFlush::Prepare() {
  if (qp_) return OkStatus();
  Verbs* const verbs = device_->verbs();
  pd_ = PdHandle(verbs->AllocPd(device_->context()), {verbs});
  if (!pd_) return FailedPrecondition("no protection domain: %s", std::strerror(errno));
  HP_ASSIGN_OR_RETURN(target_region_,
                      RegisterHostMemory(verbs, pd_.get(), target_.data(), target_.size(), IBV_ACCESS_LOCAL_WRITE));
  const int entries = static_cast<int>(device_->settings().send_depth);
  cq_ = CqHandle(verbs->CreateCq(device_->context(), entries, static_cast<CqUser*>(this), device_->channel()), {verbs});
  if (!cq_) return FailedPrecondition("no completion queue: %s", std::strerror(errno));
  HP_ASSIGN_OR_RETURN(qp_, QueuePair::Create(verbs, pd_.get(),
                                             {.cq = cq_.get(),
                                              .access = IBV_ACCESS_REMOTE_READ,
                                              .port = device_->port(),
                                              .context = static_cast<CqUser*>(this)},
                                             device_->settings(), 0));
  return Connect();
}

Status VerbsFlush::Connect() {
  HP_ASSIGN_OR_RETURN(const GidEntry gid, device_->CurrentGid());
  return qp_->Connect({device_->port(), gid.index, device_->mtu(), device_->address(gid)}, qp_->address(),
                      device_->settings());
}

StatusOr<uint32_t> VerbsFlush::KeyOf(const std::shared_ptr<VerbsRegion>& region) {
  std::erase_if(readable_, [](const auto& entry) { return entry.second.region.expired(); });
  Readable& readable = readable_[region.get()];
  if (!readable.mr) {
    StatusOr<MrHandle> mr = region->RegisterPart(pd_.get(), region->memory(), IBV_ACCESS_REMOTE_READ);
    if (!mr.ok()) {
      readable_.erase(region.get());
      return mr.status();
    }
    readable = {region, *std::move(mr)};
  }
  return readable.mr->rkey;
}

Status VerbsFlush::Post(uint32_t rkey, const std::byte* address) {
  ibv_sge range = {reinterpret_cast<uint64_t>(target_.data()), 1, target_region_->lkey};
  ibv_send_wr request = {};
  request.opcode = IBV_WR_RDMA_READ;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &range;
  request.num_sge = 1;
  request.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(address);
  request.wr.rdma.rkey = rkey;
  const uint64_t tag = 0;
  return qp_->Post({&request, 1}, {&tag, 1});
}

void VerbsFlush::Flush(const std::shared_ptr<VerbsRegion>& region, const std::byte* address, Done done) {
  if (const Status status = Prepare(); !status.ok()) {
    Stop();  // of what was made: the next one begins anew
    return done(status.Prepend(kWhat));
  }
  queued_.push_back({region, address, std::move(done)});
  PostQueued();
  progress_->Watch(shared_from_this());
}

void VerbsFlush::PostQueued() {
  while (!queued_.empty() && qp_->room() > 0) {
    Request request = std::move(queued_.front());
    queued_.pop_front();
    const StatusOr<uint32_t> rkey = KeyOf(request.region);
    const Status status = rkey.ok() ? Post(*rkey, request.address) : rkey.status();
    if (status.ok()) {
      waiting_.push_back(std::move(request.done));
    } else {
      request.done(status.Prepend(kWhat));
    }
  }
}

bool VerbsFlush::Poll() {
  if (!cq_) return false;
  ibv_wc completions[8];
  const int count = device_->verbs()->PollCq(cq_.get(), 8, completions);
  for (int i = 0; i < count; ++i) {
    if (completions[i].status != IBV_WC_SUCCESS) {
      FailAll(Unavailable("%s: %s", kWhat, WcStatusText(completions[i].status)));
      return true;
    }
    qp_->Retire(completions[i].wr_id, [](uint64_t) {});
    const Done done = std::move(waiting_.front());
    waiting_.pop_front();
    done(OkStatus());
  }
  PostQueued();
  return count > 0;
}

void VerbsFlush::Sleep() {
  if (!cq_) return;
  (void)device_->verbs()->ReqNotifyCq(cq_.get());
  if (Poll()) progress_->Watch(shared_from_this());
}

void VerbsFlush::OnAsyncError(const std::string& what, Cause) { FailAll(Unavailable("%s: %s", kWhat, what.c_str())); }

void VerbsFlush::FailAll(const Status& status) {
  const std::deque<Done> waiting = std::exchange(waiting_, {});
  const std::deque<Request> queued = std::exchange(queued_, {});
  Stop();
  for (const Done& done : waiting) done(status);
  for (const Request& request : queued) request.done(status);
}

void VerbsFlush::Stop() {
  waiting_.clear();
  queued_.clear();
  qp_.reset();
  readable_.clear();
  cq_.reset();
  target_region_.reset();
  pd_.reset();
}

}  // namespace hp
