#include "transport/copy/peer_regions.h"

#include <cinttypes>
#include <utility>
#include <vector>

namespace hp {

Status PeerRegions::Add(const CopyRegion& region) {
  MutexLock lock(&mutex_);
  if (regions_.size() >= kMaxRegions) return InvalidArgument("more than %zu regions", kMaxRegions);
  const bool added = regions_.try_emplace(region.region, Region{region.bytes, region.handle}).second;
  return added ? OkStatus() : InvalidArgument("region %u was announced twice", region.region);
}

Status PeerRegions::Check(uint32_t region, uint64_t offset, uint64_t bytes) const {
  MutexLock lock(&mutex_);
  const auto it = regions_.find(region);
  if (it == regions_.end()) return InvalidArgument("a grant in region %u, which was not announced", region);
  const uint64_t size = it->second.bytes;
  if (offset <= size && bytes <= size - offset) return OkStatus();
  return InvalidArgument("a grant of %" PRIu64 " bytes at %" PRIu64 " of a region of %" PRIu64, bytes, offset, size);
}

StatusOr<std::byte*> PeerRegions::Open(uint32_t region, DeviceCopier* copier) {
  Region wanted;
  {
    MutexLock lock(&mutex_);
    wanted = regions_.at(region);
  }
  if (wanted.opened != nullptr) return wanted.opened;
  HP_ASSIGN_OR_RETURN(std::byte* const opened, copier->Open(wanted.handle, wanted.bytes));
  MutexLock lock(&mutex_);
  regions_.at(region).opened = opened;
  return opened;
}

void PeerRegions::Close(DeviceCopier* copier) {
  std::vector<std::byte*> opened;
  {
    MutexLock lock(&mutex_);
    for (auto& [id, region] : regions_) {
      if (region.opened != nullptr) opened.push_back(std::exchange(region.opened, nullptr));
    }
  }
  for (std::byte* memory : opened) copier->Close(memory);
}

}  // namespace hp
