// Two nodes in one process (tests, hpnode --all) can't use CUDA IPC, and need not: an address is enough. But a handle
// comes from a peer and may hold any number, so an address counts only if this process has exported it: ExportedMemory
// lists those, for all GPUs of the process. A handle of another process is opened by CUDA IPC, where the driver checks
// it.
#include "devices/gpu_copier.h"

#include "base/format.h"
#include "base/mutex.h"
#include "proto/parse.h"
#include "proto/wire.pb.h"

#include "devices/cuda_devices.h"

#include <map>
#include <utility>

namespace hp {
namespace {

/// What this process has exported of its GPUs: a peer may name no other address here.
class ExportedMemory {
 public:
  static ExportedMemory* Get() {
    static auto* const exported = new ExportedMemory;
    return exported;
  }
  void Add(const Gpu* gpu, std::span<std::byte> memory) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    exported_[memory.data()] = {gpu, memory.size()};
  }
  void Forget(const Gpu* gpu) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    std::erase_if(exported_, [gpu](const auto& entry) { return entry.second.gpu == gpu; });
  }
  /// Whether `bytes` bytes at `memory` are another GPU's than `ours`, or the same GPU's as another node has it.
  bool Has(const Gpu* ours, std::byte* memory, size_t bytes) HP_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    const auto it = exported_.find(memory);
    return it != exported_.end() && it->second.gpu != ours && bytes <= it->second.bytes;
  }

 private:
  struct Entry {
    const Gpu* gpu = nullptr;
    size_t bytes = 0;
  };
  Mutex mutex_;
  std::map<std::byte*, Entry> exported_ HP_GUARDED_BY(mutex_);
};

}  // namespace

std::string GpuHandleOf(Gpu* gpu, const ProcessPlace& place, std::span<std::byte> memory) {
  GpuMemoryHandle handle;
  handle.set_host_id(place.host_id);
  handle.set_process(place.process());
  handle.set_pci_address(gpu->info().pci_address);
  handle.set_bytes(memory.size());
  handle.set_address(reinterpret_cast<uint64_t>(memory.data()));
  ExportedMemory::Get()->Add(gpu, memory);
  const StatusOr<GpuIpcMemory> ipc = gpu->ExportIpc(memory.data());
  if (ipc.ok()) {
    handle.set_ipc_handle(ipc->handle);
    handle.set_ipc_offset(ipc->offset);
  } else {
    handle.set_ipc_fault(ipc.status().message());
  }
  return handle.SerializeAsString();
}

StatusOr<std::unique_ptr<DeviceCopier>> GpuCopier::Create(Gpu* gpu, const ProcessPlace& place) {
  std::unique_ptr<GpuCopier> copier(new GpuCopier(gpu, place));
  HP_ASSIGN_OR_RETURN(copier->probe_buffer_, gpu->AllocateShared(kCopyProbeBytes));
  copier->probe_ = DescribeGpuMemory(gpu, place, copier->probe_buffer_.span());
  return std::unique_ptr<DeviceCopier>(std::move(copier));
}

GpuCopier::~GpuCopier() { ExportedMemory::Get()->Forget(gpu_); }

StatusOr<std::byte*> GpuCopier::Open(std::string_view bytes_of_handle, size_t bytes) {
  GpuMemoryHandle handle;
  if (!ParseMessage(bytes_of_handle, &handle)) return InvalidArgument("not a valid GPU memory handle");
  if (bytes > handle.bytes())
    return InvalidArgument("the GPU memory handle covers %zu bytes; expected at least %zu", handle.bytes(), bytes);
  if (place_.host_id == 0 || handle.host_id() != place_.host_id)
    return FailedPrecondition("they are on different hosts");
  HP_RETURN_IF_ERROR(gpu_->CanReach(Printable(handle.pci_address())));
  if (handle.process() == place_.process()) {
    auto* const memory = reinterpret_cast<std::byte*>(handle.address());
    if (!ExportedMemory::Get()->Has(gpu_, memory, bytes))
      return InvalidArgument("the GPU memory handle names memory that this process has not exported");
    HP_RETURN_IF_ERROR(gpu_->OpenHere(memory, bytes));
    return memory;
  }
  if (handle.ipc_handle().empty()) return FailedPrecondition("%s", Printable(handle.ipc_fault()).c_str());
  HP_ASSIGN_OR_RETURN(void* const opened, gpu_->OpenIpc({handle.ipc_handle(), handle.ipc_offset()}, bytes));
  ipc_.insert(static_cast<std::byte*>(opened));
  return static_cast<std::byte*>(opened);
}

void GpuCopier::Close(std::byte* opened) {
  const auto ipc = ipc_.find(opened);
  if (ipc == ipc_.end()) return;  // of this process
  ipc_.erase(ipc);
  gpu_->CloseIpc(opened);
}

}  // namespace hp
