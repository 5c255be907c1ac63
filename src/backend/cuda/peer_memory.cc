#include "backend/cuda/peer_memory.h"

#include "backend/cuda/cuda_status.h"
#include "backend/cuda/driver.h"

#include "glog/logging.h"
#include <cuda_runtime.h>

#include <cstring>

namespace hp {

void PeerMemory::Use() const { cudaSetDevice(index_); }

Status PeerMemory::CanReach(int peer) const {
  if (peer == index_) return OkStatus();
  int can = 0;
  HP_RETURN_IF_ERROR(CudaStatus(cudaDeviceCanAccessPeer(&can, index_, peer), "cudaDeviceCanAccessPeer"));
  return can ? OkStatus() : FailedPrecondition("%s can't access the memory of cuda:%d", name().c_str(), peer);
}

Status PeerMemory::CanReach(const std::string& pci_address) const {
  int peer = 0;
  if (cudaDeviceGetByPCIBusId(&peer, pci_address.c_str()) == cudaSuccess) return CanReach(peer);
  cudaGetLastError();
  return OkStatus();
}

StatusOr<GpuIpcMemory> PeerMemory::ExportIpc(const void* memory) const {
  Use();
  const void* begin = nullptr;
  size_t bytes = 0;
  HP_RETURN_IF_ERROR(DriverAllocationOf(memory, &begin, &bytes).Prepend(name()));
  cudaIpcMemHandle_t handle;
  if (const cudaError_t error = cudaIpcGetMemHandle(&handle, const_cast<void*>(begin)); error != cudaSuccess) {
    cudaGetLastError();
    return FailedPrecondition("%s: cudaIpcGetMemHandle: %s", name().c_str(), cudaGetErrorString(error));
  }
  GpuIpcMemory exported;
  exported.handle.assign(reinterpret_cast<const char*>(&handle), sizeof(handle));
  exported.offset = static_cast<const std::byte*>(memory) - static_cast<const std::byte*>(begin);
  return exported;
}

StatusOr<void*> PeerMemory::OpenIpc(const GpuIpcMemory& memory, size_t bytes) {
  cudaIpcMemHandle_t handle;
  if (memory.handle.size() != sizeof(handle))
    return InvalidArgument("invalid IPC memory handle: %zu bytes", memory.handle.size());
  std::memcpy(&handle, memory.handle.data(), sizeof(handle));
  Use();
  void* begin = nullptr;
  if (const cudaError_t error = cudaIpcOpenMemHandle(&begin, handle, cudaIpcMemLazyEnablePeerAccess);
      error != cudaSuccess) {
    cudaGetLastError();
    return FailedPrecondition("%s: cudaIpcOpenMemHandle: %s", name().c_str(), cudaGetErrorString(error));
  }
  const void* allocation = nullptr;
  size_t size = 0;
  const Status told = DriverAllocationOf(begin, &allocation, &size);
  if (told.ok()) size -= static_cast<std::byte*>(begin) - static_cast<const std::byte*>(allocation);
  if (!told.ok() || memory.offset > size || bytes > size - memory.offset) {
    cudaIpcCloseMemHandle(begin);
    return told.ok() ? InvalidArgument("the allocation has %zu bytes, too few for %zu at the given offset", size, bytes)
                     : told;
  }
  void* const opened = static_cast<std::byte*>(begin) + memory.offset;
  MutexLock lock(&mutex_);
  opened_.emplace(opened, begin);
  return opened;
}

void PeerMemory::CloseIpc(void* opened) {
  Use();
  void* begin = nullptr;
  {
    MutexLock lock(&mutex_);
    const auto found = opened_.find(opened);
    CHECK(found != opened_.end()) << "closing memory that is not open";
    begin = found->second;
    opened_.erase(found);
  }
  // Its owner may be gone, which is no failure of this GPU.
  if (const cudaError_t error = cudaIpcCloseMemHandle(begin); error != cudaSuccess) {
    cudaGetLastError();
    LOG(WARNING) << name() << ": cudaIpcCloseMemHandle: " << cudaGetErrorString(error);
  }
}

Status PeerMemory::OpenHere(void* memory, size_t bytes) const {
  Use();
  cudaPointerAttributes attributes;
  const cudaError_t error = cudaPointerGetAttributes(&attributes, memory);
  if (error != cudaSuccess || attributes.type != cudaMemoryTypeDevice) {
    cudaGetLastError();
    return InvalidArgument("not GPU memory");
  }
  const void* begin = nullptr;
  size_t size = 0;
  cudaSetDevice(attributes.device);  // the driver answers for the memory of the current one
  const Status told = DriverAllocationOf(memory, &begin, &size);
  Use();
  HP_RETURN_IF_ERROR(told);
  if (bytes > size - (static_cast<std::byte*>(memory) - static_cast<const std::byte*>(begin))) {
    return InvalidArgument("the allocation has %zu bytes, too few for %zu at the given address", size, bytes);
  }
  if (attributes.device == index_) return OkStatus();
  HP_RETURN_IF_ERROR(CanReach(attributes.device));
  const cudaError_t enabled = cudaDeviceEnablePeerAccess(attributes.device, 0);
  if (enabled == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return OkStatus();
  }
  return CudaStatus(enabled, "cudaDeviceEnablePeerAccess").Prepend(name());
}

}  // namespace hp
