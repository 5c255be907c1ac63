#pragma once

#include "base/mutex.h"
#include "hp/status.h"
#include "transport/transport.h"
#include "transport/verbs/device.h"
#include "transport/verbs/region.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>

namespace hp {

/// A landing place as its writer must know it. Ends with it: a registration that was made for this one use.
struct Landing {
  uint64_t address = 0;
  uint32_t rkey = 0;
  MrHandle own = {};                          ///< of memory that nobody registered, or of staging
  std::unique_ptr<std::byte[]> staging = {};  ///< where it lands instead
  std::shared_ptr<VerbsRegion> region = {};   ///< null: nobody registered the memory
  /// GPU memory that the adapter writes: VerbsFlush before anybody reads it.
  bool needs_flush() const { return region && region->gpu_path() && !region->staged(); }
};

/// A source as a work request must know it. Ends with it: as above.
struct Source {
  uint64_t address = 0;
  uint32_t lkey = 0;
  bool host = true;  ///< whether the processor may read it, so that it can be posted inline
  MrHandle own = {};
  std::unique_ptr<std::byte[]> staging = {};
};

/// All registrations of a device: arenas, read locally, and within them one memory region for each landing place, so
/// that the adapter itself stops a write beyond it. Memory that nobody registered is registered for each use. Any
/// thread.
class VerbsMemory : public std::enable_shared_from_this<VerbsMemory> {
 public:
  /// @param sys_root where /sys is found; a test has its own.
  explicit VerbsMemory(std::shared_ptr<VerbsDevice> device, std::string sys_root = "/sys");

  /// @return kFailedPrecondition: it can't be registered, with advice where the memory lock limit is the cause.
  StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte> memory);
  StatusOr<std::unique_ptr<MemoryRegion>> Register(const DeviceMemory& memory);

  /// Makes `place` writable by a peer. @param owner an endpoint: its places are kept until DropOwner.
  /// @return kResourceExhausted: it can't be registered.
  StatusOr<Landing> OpenPlace(uint64_t owner, std::span<std::byte> place) HP_EXCLUDES(mutex_);
  /// @param inline_bytes no registration is needed for host memory up to here.
  StatusOr<Source> OpenSource(std::span<const std::byte> source, size_t inline_bytes) HP_EXCLUDES(mutex_);
  /// Ends all registrations of places of an endpoint that is gone: its keys are void.
  void DropOwner(uint64_t owner) HP_EXCLUDES(mutex_);
  void Remove(const VerbsRegion* region) HP_EXCLUDES(mutex_);

 private:
  using PlaceKey = std::tuple<uint64_t, const std::byte*, size_t>;  // owner, address, bytes

  std::shared_ptr<VerbsRegion> Find(std::span<const std::byte> memory) HP_EXCLUDES(mutex_);
  std::unique_ptr<MemoryRegion> Add(std::shared_ptr<VerbsRegion> region) HP_EXCLUDES(mutex_);
  StatusOr<uint32_t> KeptPlace(const VerbsRegion& region, const PlaceKey& key, std::span<std::byte> place)
      HP_EXCLUDES(mutex_);

  const std::shared_ptr<VerbsDevice> device_;
  const std::string sys_root_;
  const int place_access_;
  mutable Mutex mutex_;  // innermost; held across the registration of a place, once for each
  std::map<const std::byte*, std::shared_ptr<VerbsRegion>> regions_ HP_GUARDED_BY(mutex_);
  std::map<PlaceKey, MrHandle> places_ HP_GUARDED_BY(mutex_);
  std::map<int, GpuPath> logged_ HP_GUARDED_BY(mutex_);  // by GPU
};

}  // namespace hp
