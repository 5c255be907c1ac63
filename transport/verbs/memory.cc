// Regions are found by address in an ordered map. A place in a region gets a memory region of its own at its first
// grant to an owner; it is kept under (owner, address, size), so that a new connection has new keys and dropping an
// owner is a range of the map. GPU memory that the adapter cannot reach is staged: a write lands in, or is sent from,
// host memory that is allocated for this use.
#include "transport/verbs/memory.h"

#include <glog/logging.h>

#include <utility>

namespace hp {
namespace {

/// What the caller of Register holds.
class Registration : public MemoryRegion {
 public:
  Registration(std::shared_ptr<VerbsMemory> memory, const VerbsRegion* region)
      : memory_(std::move(memory)), region_(region) {}
  ~Registration() override { memory_->Remove(region_); }

 private:
  const std::shared_ptr<VerbsMemory> memory_;
  const VerbsRegion* const region_;
};

class NoRegistration : public MemoryRegion {};

uint64_t AddressOf(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

}  // namespace

VerbsMemory::VerbsMemory(std::shared_ptr<VerbsDevice> device, std::string sys_root)
    : device_(std::move(device)),
      sys_root_(std::move(sys_root)),
      place_access_(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | device_->ordering()) {}

StatusOr<std::unique_ptr<MemoryRegion>> VerbsMemory::Register(std::span<std::byte> memory) {
  if (memory.empty()) return std::unique_ptr<MemoryRegion>(std::make_unique<NoRegistration>());
  StatusOr<std::shared_ptr<VerbsRegion>> region = VerbsRegion::OfHost(device_, memory);
  // A matter of this host's configuration, not of trying again.
  if (!region.ok()) return FailedPrecondition("%s", region.status().message().c_str());
  return Add(*std::move(region));
}

StatusOr<std::unique_ptr<MemoryRegion>> VerbsMemory::Register(const DeviceMemory& memory) {
  HP_ASSIGN_OR_RETURN(auto region, VerbsRegion::OfGpu(device_, memory, sys_root_));
  {
    MutexLock lock(&mutex_);
    if (logged_.emplace(memory.device, *region->gpu_path()).second) {
      LOG(INFO) << "GPU " << memory.device << " and " << device_->name() << ": " << GpuPathName(*region->gpu_path())
                << (region->passed_over().empty() ? "" : " (" + region->passed_over() + ")");
    }
  }
  return Add(std::move(region));
}

std::unique_ptr<MemoryRegion> VerbsMemory::Add(std::shared_ptr<VerbsRegion> region) {
  auto registration = std::make_unique<Registration>(shared_from_this(), region.get());
  MutexLock lock(&mutex_);
  const std::byte* begin = region->memory().data();
  CHECK(regions_.emplace(begin, std::move(region)).second) << "memory is registered twice";
  return registration;
}

void VerbsMemory::Remove(const VerbsRegion* region) {
  std::shared_ptr<VerbsRegion> kept;  // ends after its places, without the lock
  MutexLock lock(&mutex_);
  std::erase_if(places_, [region](const auto& entry) {
    const auto& [owner, address, bytes] = entry.first;
    return region->Covers({address, bytes});
  });
  const auto it = regions_.find(region->memory().data());
  kept = std::move(it->second);
  regions_.erase(it);
}

std::shared_ptr<VerbsRegion> VerbsMemory::Find(std::span<const std::byte> memory) {
  MutexLock lock(&mutex_);
  auto it = regions_.upper_bound(memory.data());
  if (it == regions_.begin()) return nullptr;
  --it;
  return it->second->Covers(memory) ? it->second : nullptr;
}

StatusOr<uint32_t> VerbsMemory::KeptPlace(const VerbsRegion& region, const PlaceKey& key, std::span<std::byte> place) {
  MutexLock lock(&mutex_);
  MrHandle& kept = places_[key];
  if (!kept) {
    StatusOr<MrHandle> registered = region.RegisterPart(device_->pd(), place, place_access_);
    if (!registered.ok()) {
      places_.erase(key);
      return registered.status();
    }
    kept = *std::move(registered);
  }
  return kept->rkey;
}

StatusOr<Landing> VerbsMemory::OpenPlace(uint64_t owner, std::span<std::byte> place) {
  Landing landing{.address = AddressOf(place.data()), .region = Find(place)};
  if (place.empty()) return landing;
  if (landing.region && !landing.region->staged()) {
    HP_ASSIGN_OR_RETURN(landing.rkey, KeptPlace(*landing.region, {owner, place.data(), place.size()}, place));
    return landing;
  }
  if (landing.region) {
    landing.staging = std::make_unique_for_overwrite<std::byte[]>(place.size());
    landing.address = AddressOf(landing.staging.get());
  }
  HP_ASSIGN_OR_RETURN(landing.own,
                      RegisterHostMemory(device_->verbs(), device_->pd(), reinterpret_cast<void*>(landing.address),
                                         place.size(), place_access_));
  landing.rkey = landing.own->rkey;
  return landing;
}

StatusOr<Source> VerbsMemory::OpenSource(std::span<const std::byte> source, size_t inline_bytes) {
  Source opened{.address = AddressOf(source.data())};
  const std::shared_ptr<VerbsRegion> region = Find(source);
  opened.host = !region || !region->gpu_path();
  if (source.empty() || (opened.host && source.size() <= inline_bytes)) return opened;
  if (region && !region->staged()) {
    opened.lkey = region->lkey();
    return opened;
  }
  if (region) {
    opened.staging = std::make_unique_for_overwrite<std::byte[]>(source.size());
    HP_RETURN_IF_ERROR(region->Copy(opened.staging.get(), source.data(), source.size()));
    opened.address = AddressOf(opened.staging.get());
    opened.host = true;
  }
  HP_ASSIGN_OR_RETURN(opened.own,
                      RegisterHostMemory(device_->verbs(), device_->pd(), reinterpret_cast<void*>(opened.address),
                                         source.size(), device_->ordering()));
  opened.lkey = opened.own->lkey;
  return opened;
}

void VerbsMemory::DropOwner(uint64_t owner) {
  MutexLock lock(&mutex_);
  places_.erase(places_.lower_bound({owner, nullptr, 0}), places_.lower_bound({owner + 1, nullptr, 0}));
}

}  // namespace hp
