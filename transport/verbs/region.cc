#include "transport/verbs/region.h"

#include "base/format.h"
#include "transport/verbs/pci.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

namespace hp {
namespace {

// NVIDIA's kernel modules that let ibv_reg_mr take GPU addresses; the second is the older one.
constexpr const char* kPeermemModules[] = {"nvidia_peermem", "nv_peer_mem"};

std::vector<GpuPath> Ladder(GpuDirect wanted) {
  switch (wanted) {
    case GpuDirect::kDmaBuf:
      return {GpuPath::kDmaBuf};
    case GpuDirect::kPeermem:
      return {GpuPath::kPeermem};
    case GpuDirect::kStaged:
      return {GpuPath::kStaged};
    case GpuDirect::kAuto:
      break;
  }
  return {GpuPath::kDmaBuf, GpuPath::kPeermem, GpuPath::kStaged};
}

}  // namespace

const char* GpuPathName(GpuPath path) {
  switch (path) {
    case GpuPath::kDmaBuf:
      return "dma-buf";
    case GpuPath::kPeermem:
      return "nvidia-peermem";
    case GpuPath::kStaged:
      return "staged through host memory";
  }
  return "?";
}

StatusOr<std::shared_ptr<VerbsRegion>> VerbsRegion::OfHost(std::shared_ptr<VerbsDevice> device,
                                                           std::span<std::byte> memory) {
  std::shared_ptr<VerbsRegion> region(new VerbsRegion(device, memory));
  HP_ASSIGN_OR_RETURN(region->local_, region->RegisterPart(device->pd(), memory, device->ordering()));
  return region;
}

StatusOr<std::shared_ptr<VerbsRegion>> VerbsRegion::OfGpu(std::shared_ptr<VerbsDevice> device,
                                                          const DeviceMemory& memory, const std::string& sys_root) {
  std::shared_ptr<VerbsRegion> region(new VerbsRegion(device, memory.bytes));
  region->gpu_ = memory;
  for (GpuPath path : Ladder(device->settings().gpudirect)) {
    const Status status = region->Try(path, sys_root);
    if (status.ok()) return region;
    region->passed_over_ +=
        Format("%s%s: %s", region->passed_over_.empty() ? "" : "; ", GpuPathName(path), status.message().c_str());
  }
  return FailedPrecondition("the memory of GPU %d can't be reached: %s", memory.device, region->passed_over_.c_str());
}

VerbsRegion::~VerbsRegion() {
  local_.reset();
  if (dma_buf_.fd >= 0) close(dma_buf_.fd);
}

bool VerbsRegion::Covers(std::span<const std::byte> part) const {
  return part.data() >= memory_.data() && part.data() + part.size() <= memory_.data() + memory_.size();
}

Status VerbsRegion::Try(GpuPath path, const std::string& sys_root) {
  if (path == GpuPath::kStaged) {
    if (!gpu_.copy) return FailedPrecondition("no function to copy from and to the GPU was given");
    path_ = path;
    return OkStatus();
  }
  HP_RETURN_IF_ERROR(
      CheckGpuDistance(sys_root, device_->name(), gpu_.pci_address, device_->settings().gpudirect_level));
  if (path == GpuPath::kPeermem) return TryPeermem(sys_root);
  // The PCIe mapping is the faster one where the driver has it.
  const Status with_mapping = TryDmaBuf(true);
  return with_mapping.ok() ? with_mapping : TryDmaBuf(false);
}

Status VerbsRegion::TryDmaBuf(bool pcie_mapping) {
  if (!gpu_.export_dma_buf) return FailedPrecondition("the GPU's driver exports none");
  HP_ASSIGN_OR_RETURN(dma_buf_, gpu_.export_dma_buf(pcie_mapping));
  path_ = GpuPath::kDmaBuf;
  StatusOr<MrHandle> local = RegisterPart(device_->pd(), memory_, device_->ordering());
  if (local.ok()) {
    local_ = *std::move(local);
    return OkStatus();
  }
  path_.reset();
  close(dma_buf_.fd);
  dma_buf_ = {};
  return local.status();
}

Status VerbsRegion::TryPeermem(const std::string& sys_root) {
  for (const char* module : kPeermemModules) {
    std::error_code error;
    if (!std::filesystem::exists(sys_root + "/module/" + module, error)) continue;
    path_ = GpuPath::kPeermem;
    StatusOr<MrHandle> local = RegisterPart(device_->pd(), memory_, device_->ordering());
    if (local.ok()) {
      local_ = *std::move(local);
      return OkStatus();
    }
    path_.reset();
    return local.status();
  }
  return FailedPrecondition("the module is not loaded (modprobe nvidia-peermem)");
}

StatusOr<MrHandle> VerbsRegion::RegisterPart(ibv_pd* pd, std::span<const std::byte> part, int access) const {
  CHECK(!staged());
  Verbs* const verbs = device_->verbs();
  if (path_ != GpuPath::kDmaBuf) return RegisterHostMemory(verbs, pd, part.data(), part.size(), access);
  const uint64_t offset = dma_buf_.offset + static_cast<uint64_t>(part.data() - memory_.data());
  const uint64_t iova = reinterpret_cast<uint64_t>(part.data());
  MrHandle region(verbs->RegDmabufMr(pd, offset, part.size(), iova, dma_buf_.fd, access), {verbs});
  if (region) return region;
  return FailedPrecondition("%s does not take a dma-buf of GPU %d: %s", device_->name().c_str(), gpu_.device,
                            std::strerror(errno));
}

}  // namespace hp
