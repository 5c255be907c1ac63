#pragma once

#include "hp/status.h"
#include "transport/transport.h"
#include "transport/verbs/device.h"

#include <memory>
#include <optional>
#include <span>
#include <string>

namespace hp {

/// How an adapter reaches the memory of a GPU.
enum class GpuPath {
  kDmaBuf,   ///< directly, registered by a dma-buf that the GPU's driver exports
  kPeermem,  ///< directly, registered by address with the kernel module nvidia-peermem
  kStaged    ///< not: each tensor is copied through host memory
};
/// For the log: "dma-buf".
const char* GpuPathName(GpuPath path);

/// One registered arena, of the host or of a GPU, and how the adapter reaches it. Immutable; any thread. The memory
/// must stay allocated as long as it.
class VerbsRegion {
 public:
  /// Registers host memory for reading by our own work requests. @return kResourceExhausted: as RegisterHostMemory.
  static StatusOr<std::shared_ptr<VerbsRegion>> OfHost(std::shared_ptr<VerbsDevice> device,
                                                       std::span<std::byte> memory);
  /// The same for GPU memory, by the first of these that works: dma-buf with the PCIe mapping, dma-buf without,
  /// nvidia-peermem, staging; or only by the one that the settings force. @param sys_root where /sys is found.
  /// @return kFailedPrecondition: the forced way, or every way, fails; says why for each.
  static StatusOr<std::shared_ptr<VerbsRegion>> OfGpu(std::shared_ptr<VerbsDevice> device, const DeviceMemory& memory,
                                                      const std::string& sys_root);
  ~VerbsRegion();

  std::span<std::byte> memory() const { return memory_; }
  bool Covers(std::span<const std::byte> part) const;  ///< whether `part` lies within it
  /// Of GPU memory; nothing: host memory.
  std::optional<GpuPath> gpu_path() const { return path_; }
  int gpu() const { return gpu_.device; }  ///< DeviceMemory::device, for messages
  /// Why the ways that were tried before gpu_path() failed; may be empty.
  const std::string& passed_over() const { return passed_over_; }
  bool staged() const { return path_ == GpuPath::kStaged; }
  uint32_t lkey() const { return local_->lkey; }  ///< for our own work requests. Not when staged

  /// Registers `part` alone, which lies within it. Not when staged. @param access IBV_ACCESS_... flags.
  /// @return kResourceExhausted: it cannot be registered.
  StatusOr<MrHandle> RegisterPart(ibv_pd* pd, std::span<const std::byte> part, int access) const;
  /// Copies between the GPU and host memory, either way; blocks. Only when staged.
  Status Copy(std::byte* to, const std::byte* from, size_t bytes) const { return gpu_.copy(to, from, bytes); }

 private:
  VerbsRegion(std::shared_ptr<VerbsDevice> device, std::span<std::byte> memory)
      : device_(std::move(device)), memory_(memory) {}
  Status Try(GpuPath path, const std::string& sys_root);
  Status TryDmaBuf(bool pcie_mapping);
  Status TryPeermem(const std::string& sys_root);

  const std::shared_ptr<VerbsDevice> device_;
  const std::span<std::byte> memory_;
  DeviceMemory gpu_;
  std::optional<GpuPath> path_;
  DmaBuf dma_buf_;
  std::string passed_over_;
  MrHandle local_;
};

}  // namespace hp
