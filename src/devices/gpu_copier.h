#pragma once

#include "backend/cuda/gpu.h"
#include "transport/copy/device_copier.h"

#include "devices/process_place.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>

namespace hp {

/// A handle by which other nodes of the host open memory of `gpu`, for DeviceMemory::export_handle: a serialized
/// GpuMemoryHandle. Never fails: where CUDA can't export the memory, the handle says why. Until the GPU's GpuCopier is
/// destroyed, nodes of this process may open it by its address. Any thread.
/// @param memory of Gpu::AllocateShared.
std::string GpuHandleOf(Gpu* gpu, const ProcessPlace& place, std::span<std::byte> memory);

/// Copies from a node's GPU into memory of other GPUs of its host, in the queue Device::kCopyAcross. Memory of the same
/// process is opened by its address, that of another one by CUDA IPC (CUDA does not open a process's own handles).
/// Contract of the methods, and threads: DeviceCopier.
class GpuCopier : public DeviceCopier {
 public:
  /// @param gpu must outlive it. @param place of the node. @return kResourceExhausted: it has no memory for the probe.
  static StatusOr<std::unique_ptr<DeviceCopier>> Create(Gpu* gpu, const ProcessPlace& place);
  /// Memory that GpuHandleOf exported of this GPU can't be opened in this process from here on.
  ~GpuCopier() override;

  std::string name() const override { return gpu_->name(); }
  const DeviceMemory& probe() const override { return probe_; }
  /// By address if the handle is of this process, which must have exported it, of another GPU object; else by CUDA IPC.
  /// @param handle not trusted. @return kInvalidArgument: no handle, not exported here, or fewer than `bytes` bytes;
  /// kFailedPrecondition: another host, or the driver can't reach or open it; says why.
  StatusOr<std::byte*> Open(std::string_view handle, size_t bytes) override;
  void Close(std::byte* opened) override;
  void Copy(std::byte* to, const std::byte* from, size_t bytes) override {
    gpu_->CopyAcross(Device::kCopyAcross, to, from, bytes);
  }
  Mark Record() override { return gpu_->Record(Device::kCopyAcross); }
  Status Wait(Mark mark) override { return gpu_->Wait(mark); }

 private:
  GpuCopier(Gpu* gpu, ProcessPlace place) : gpu_(gpu), place_(std::move(place)) {}

  Gpu* const gpu_;
  const ProcessPlace place_;
  Buffer probe_buffer_;            // kCopyProbeBytes of the GPU
  DeviceMemory probe_;             // describes it
  std::multiset<std::byte*> ipc_;  // what is open by IPC, and must be closed; the rest is of this process
};

}  // namespace hp
