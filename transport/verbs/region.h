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
enum class GpuPath { kDmaBuf, kPeermem, kStaged };
const char* GpuPathName(GpuPath path);

/// One arena, of the host or of a GPU, and how the adapter reaches it. Immutable but for what the ladder found out.
class VerbsRegion {
 public:
  /// Registers `memory` for reading by our own work requests.
  static StatusOr<std::shared_ptr<VerbsRegion>> OfHost(std::shared_ptr<VerbsDevice> device,
                                                       std::span<std::byte> memory);
  /// The same for a GPU: by dma-buf, with the PCIe mapping first, else by nvidia-peermem, else staged through the host;
  /// or only as the settings force it. @param sys_root where /sys is found.
  /// @return kFailedPrecondition: the forced way is closed, or none is open; says why for each.
  static StatusOr<std::shared_ptr<VerbsRegion>> OfGpu(std::shared_ptr<VerbsDevice> device, const DeviceMemory& memory,
                                                      const std::string& sys_root);
  ~VerbsRegion();

  std::span<std::byte> memory() const { return memory_; }
  bool Covers(std::span<const std::byte> part) const;
  /// nothing: host memory.
  std::optional<GpuPath> gpu_path() const { return path_; }
  int gpu() const { return gpu_.device; }
  /// Why the ways before it were closed.
  const std::string& passed_over() const { return passed_over_; }
  bool staged() const { return path_ == GpuPath::kStaged; }
  uint32_t lkey() const { return local_->lkey; }

  /// A memory region of `part` alone. Not when staged.
  StatusOr<MrHandle> RegisterPart(ibv_pd* pd, std::span<const std::byte> part, int access) const;
  /// Between the GPU and the host. Only when staged.
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
