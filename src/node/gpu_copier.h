#pragma once

#include "backend/cuda/gpu.h"
#include "transport/copy/device_copier.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>

namespace hp {

/// Where a node runs, as far as its GPU's memory goes: within one process a pointer says enough, between two of one
/// host CUDA IPC is needed, which is no use within one.
struct GpuPlace {
  uint64_t host_id = 0;  ///< 0: unknown, and nobody else is on that host
  std::string process;   ///< of all processes of the host
};
GpuPlace ThisPlace();

/// What export_handle of memory of `gpu` gives: a GpuMemoryHandle. @param memory of AllocateShared. Until the GPU's
/// GpuCopier ends, others of this process may open it by its address.
std::string GpuHandleOf(Gpu* gpu, const GpuPlace& place, std::span<std::byte> memory);

/// A node's GPU as it copies into the memory of others.
class GpuCopier : public DeviceCopier {
 public:
  /// @param gpu must outlive it. @return kResourceExhausted: it has no memory for the probe.
  static StatusOr<std::unique_ptr<DeviceCopier>> Create(Gpu* gpu, const GpuPlace& place);
  ~GpuCopier() override;

  std::string name() const override { return gpu_->name(); }
  const DeviceMemory& probe() const override { return probe_; }
  StatusOr<std::byte*> Open(std::string_view handle, size_t bytes) override;
  void Close(std::byte* opened) override;
  void Copy(std::byte* to, const std::byte* from, size_t bytes) override {
    gpu_->CopyAcross(Device::kCopyAcross, to, from, bytes);
  }
  Mark Record() override { return gpu_->Record(Device::kCopyAcross); }
  Status Wait(Mark mark) override { return gpu_->Wait(mark); }

 private:
  GpuCopier(Gpu* gpu, GpuPlace place) : gpu_(gpu), place_(std::move(place)) {}

  Gpu* const gpu_;
  const GpuPlace place_;
  Buffer probe_buffer_;
  DeviceMemory probe_;
  std::multiset<std::byte*> ipc_;  // what is open by IPC
};

}  // namespace hp
