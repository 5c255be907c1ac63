#include "transport/verbs/device.h"

#include "base/format.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hp {
namespace {

std::string MemlockAdvice() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return Format(
      "; at most %llu KiB may be locked (RLIMIT_MEMLOCK): raise it with `ulimit -l unlimited`, for all logins by "
      "\"* - memlock unlimited\" in /etc/security/limits.d, for a service by LimitMEMLOCK=infinity",
      static_cast<unsigned long long>(limit.rlim_cur / 1024));
}

Status SetNonBlocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0) return OkStatus();
  return FailedPrecondition("can't poll the device's events: %s", std::strerror(errno));
}

}  // namespace

StatusOr<MrHandle> RegisterHostMemory(Verbs* verbs, ibv_pd* pd, const void* address, size_t bytes, int access) {
  MrHandle region(verbs->RegMr(pd, const_cast<void*>(address), bytes, access), {verbs});
  if (region) return region;
  const int error = errno;
  return ResourceExhausted("can't register %zu KiB of memory: %s%s", (bytes + 1023) / 1024, std::strerror(error),
                           error == ENOMEM || error == EPERM || error == EAGAIN ? MemlockAdvice().c_str() : "");
}

StatusOr<std::unique_ptr<ReceivePool>> ReceivePool::Create(Verbs* verbs, ibv_pd* pd, uint32_t count, size_t bytes) {
  std::unique_ptr<ReceivePool> pool(new ReceivePool(verbs, count, bytes));
  if (bytes > 0) {
    pool->buffers_ = std::make_unique_for_overwrite<std::byte[]>(count * bytes);
    HP_ASSIGN_OR_RETURN(pool->region_,
                        RegisterHostMemory(verbs, pd, pool->buffers_.get(), count * bytes, IBV_ACCESS_LOCAL_WRITE));
  }
  ibv_srq_init_attr attributes = {};
  attributes.attr.max_wr = count;
  attributes.attr.max_sge = 1;
  pool->srq_ = SrqHandle(verbs->CreateSrq(pd, &attributes), {verbs});
  if (!pool->srq_) return FailedPrecondition("no shared receive queue of %u: %s", count, std::strerror(errno));
  for (uint32_t index = 0; index < count; ++index) pool->recycled_.push_back(index);
  HP_RETURN_IF_ERROR(pool->Flush());
  return pool;
}

Status ReceivePool::Recycle(uint64_t id) {
  recycled_.push_back(id & kIndexMask);
  return recycled_.size() * 4 < count_ ? OkStatus() : Flush();
}

Status ReceivePool::Flush() {
  if (recycled_.empty()) return OkStatus();
  std::vector<ibv_recv_wr> requests(recycled_.size());
  std::vector<ibv_sge> ranges(recycled_.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i] = {};
    requests[i].wr_id = kMark | recycled_[i];
    requests[i].next = i + 1 < requests.size() ? &requests[i + 1] : nullptr;
    if (bytes_ == 0) continue;
    ranges[i] = {reinterpret_cast<uint64_t>(buffers_.get() + recycled_[i] * bytes_), static_cast<uint32_t>(bytes_),
                 region_->lkey};
    requests[i].sg_list = &ranges[i];
    requests[i].num_sge = 1;
  }
  recycled_.clear();
  ibv_recv_wr* bad = nullptr;
  const int error = verbs_->PostSrqRecv(srq_.get(), requests.data(), &bad);
  if (error == 0) return OkStatus();
  return Unavailable("the shared receive queue accepts no request: %s", std::strerror(error));
}

VerbsDevice::VerbsDevice(Verbs* verbs, VerbsSettings settings, std::string address, OpenPort open)
    : verbs_(verbs), settings_(std::move(settings)), address_(std::move(address)), open_(std::move(open)) {}

StatusOr<std::shared_ptr<VerbsDevice>> VerbsDevice::Open(Verbs* verbs, const VerbsSettings& settings,
                                                         const std::string& address) {
  HP_ASSIGN_OR_RETURN(OpenPort open, OpenBestPort(verbs, settings, address));
  std::shared_ptr<VerbsDevice> device(new VerbsDevice(verbs, settings, address, std::move(open)));
  const std::string label = Format("%s:%d", device->name().c_str(), device->port());
  HP_RETURN_IF_ERROR(device->CurrentGid().status().Prepend(label));
  HP_RETURN_IF_ERROR(device->CheckLimits().Prepend(label));
  HP_RETURN_IF_ERROR(device->Prepare().Prepend(label));
  return device;
}

/// Takes less where the device has less.
Status VerbsDevice::CheckLimits() {
  ibv_device_attr limits = {};
  if (const int error = verbs_->QueryDevice(context(), &limits)) {
    return FailedPrecondition("can't be queried for its limits: %s", std::strerror(error));
  }
  if (limits.max_srq < 2 || limits.max_srq_wr < 16) return FailedPrecondition("it has no shared receive queues");
  const auto most = [](uint32_t* value, int limit) { *value = std::min(*value, static_cast<uint32_t>(limit)); };
  most(&settings_.send_depth, limits.max_qp_wr);
  most(&settings_.control_receives, limits.max_srq_wr);
  most(&settings_.data_receives, limits.max_srq_wr);
  const uint64_t completions = settings_.send_depth * (1 + static_cast<uint64_t>(settings_.qps_per_connection)) +
                               settings_.control_receives + settings_.data_receives;
  if (completions <= static_cast<uint64_t>(limits.max_cqe)) return OkStatus();
  return FailedPrecondition("a completion queue holds %d, and %llu completions can be outstanding", limits.max_cqe,
                            static_cast<unsigned long long>(completions));
}

Status VerbsDevice::Prepare() {
  HP_RETURN_IF_ERROR(SetNonBlocking(context()->async_fd));
  pd_ = PdHandle(verbs_->AllocPd(context()), {verbs_});
  if (!pd_) return FailedPrecondition("no protection domain: %s", std::strerror(errno));
  channel_ = ChannelHandle(verbs_->CreateCompChannel(context()), {verbs_});
  if (!channel_) return FailedPrecondition("no completion channel: %s", std::strerror(errno));
  HP_RETURN_IF_ERROR(SetNonBlocking(channel_->fd));
  HP_ASSIGN_OR_RETURN(control_receives_,
                      ReceivePool::Create(verbs_, pd(), settings_.control_receives, settings_.control_bytes));
  HP_ASSIGN_OR_RETURN(data_receives_, ReceivePool::Create(verbs_, pd(), settings_.data_receives, 0));
  return OkStatus();
}

PortAddress VerbsDevice::address(const GidEntry& gid) const {
  return {gid.gid, open_.attributes.lid, open_.attributes.link_layer == IBV_LINK_LAYER_ETHERNET};
}

StatusOr<GidEntry> VerbsDevice::CurrentGid() const {
  return ChooseGid(ReadGids(verbs_, context(), port(), open_.attributes.gid_tbl_len), settings_, address_);
}

int VerbsDevice::ordering() const {
  // Devices and kernels that do not know it ignore it: it is in the range of optional flags.
  return settings_.relaxed_ordering == RelaxedOrdering::kOff ? 0 : IBV_ACCESS_RELAXED_ORDERING;
}

}  // namespace hp
