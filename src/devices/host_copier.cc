#include "devices/host_copier.h"

#include "proto/parse.h"
#include "proto/wire.pb.h"

#include "glog/logging.h"

#include <cstring>
#include <utility>

namespace hp {

/// The memory that peers may map, and by which handle. Shared with the Buffers, which take theirs out.
class HostCopier::Allocations : public std::enable_shared_from_this<Allocations> {
 public:
  explicit Allocations(ProcessPlace place) : place_(std::move(place)) {}

  StatusOr<Buffer> Allocate(size_t bytes) HP_EXCLUDES(mutex_) {
    HP_ASSIGN_OR_RETURN(SealedMemory memory, SealedMemory::Create(bytes));
    std::byte* const data = memory.span().data();
    HostMemoryHandle handle;
    handle.set_host_id(place_.host_id);
    handle.set_pid_namespace(place_.pid_namespace);
    handle.set_pid(place_.pid);
    handle.set_file(memory.file());
    handle.set_inode(memory.inode());
    handle.set_bytes(bytes);
    MutexLock lock(&mutex_);
    shared_[data] = {std::move(memory), handle.SerializeAsString()};
    return Buffer(data, bytes, [self = shared_from_this()](std::byte* begin, size_t) { self->Release(begin); });
  }

  std::optional<DeviceMemory> Find(std::span<const std::byte> part) const HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    auto it = shared_.upper_bound(part.data());
    if (it == shared_.begin()) return std::nullopt;
    const Shared& shared = (--it)->second;
    const std::span<std::byte> whole = shared.memory.span();
    if (part.data() + part.size() > whole.data() + whole.size()) return std::nullopt;
    DeviceMemory memory;
    memory.bytes = whole;
    memory.export_handle = [handle = shared.handle] { return handle; };
    return memory;
  }

 private:
  struct Shared {
    SealedMemory memory;
    std::string handle;
  };

  void Release(std::byte* begin) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    shared_.erase(begin);
  }

  const ProcessPlace place_;
  mutable Mutex mutex_;
  std::map<const std::byte*, Shared, std::less<>> shared_ HP_GUARDED_BY(mutex_);  // by the first byte
};

HostCopier::HostCopier(const ProcessPlace& place) : place_(place), allocations_(std::make_shared<Allocations>(place)) {
  StatusOr<Buffer> probe = allocations_->Allocate(kCopyProbeBytes);
  if (probe.ok()) {
    probe_buffer_ = *std::move(probe);
    probe_ = *FindShared(probe_buffer_.span());
  } else {
    probe_.export_handle = [fault = probe.status()]() -> StatusOr<std::string> { return fault; };
  }
}

StatusOr<Buffer> HostCopier::Allocate(size_t bytes) {
  StatusOr<Buffer> shared = allocations_->Allocate(bytes);
  if (shared.ok()) return shared;
  LOG(WARNING) << shared.status().message() << "; nodes of this host send its tensors instead of copying them";
  return Buffer::Allocate(bytes);
}

std::optional<DeviceMemory> HostCopier::FindShared(std::span<const std::byte> part) const {
  return allocations_->Find(part);
}

StatusOr<std::byte*> HostCopier::Open(std::string_view bytes_of_handle, size_t bytes) {
  HostMemoryHandle handle;
  if (!ParseMessage(bytes_of_handle, &handle)) return InvalidArgument("not a valid handle of host memory");
  if (bytes > handle.bytes())
    return InvalidArgument("the handle of host memory covers %zu bytes; expected at least %zu", handle.bytes(), bytes);
  if (place_.host_id == 0 || handle.host_id() != place_.host_id)
    return FailedPrecondition("they are on different hosts");
  if (handle.pid_namespace() != place_.pid_namespace) return FailedPrecondition("they are in different containers");
  HP_ASSIGN_OR_RETURN(SealedMemory memory, SealedMemory::Open(handle.pid(), handle.file(), handle.inode(), bytes));
  std::byte* const opened = memory.span().data();
  opened_[opened] = std::move(memory);
  return opened;
}

void HostCopier::Copy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace hp
