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

/// A granted place as its writer needs it, and what was made for this one use, which ends with it.
struct Landing {
  uint64_t address = 0;                       ///< for the GRANT frame: where the peer's adapter writes
  uint32_t rkey = 0;                          ///< for the GRANT frame; covers the place and nothing else
  MrHandle own = {};                          ///< registration of unregistered memory, or of `staging`
  std::unique_ptr<std::byte[]> staging = {};  ///< host memory that is written instead; copy it to the place then
  std::shared_ptr<VerbsRegion> region = {};   ///< that the place lies in; null: the memory was not registered
  /// Whether the adapter writes GPU memory: then VerbsFlush is needed before anyone reads the place.
  bool needs_flush() const { return region && region->gpu_path() && !region->staged(); }
};

/// The source of a write as a work request needs it, and what was made for this one use. Keep it until the write is
/// done.
struct Source {
  uint64_t address = 0;                       ///< of the source, or of `staging`
  uint32_t lkey = 0;                          ///< 0 where the write is posted inline
  bool host = true;                           ///< whether `address` is host memory, so that it can be posted inline
  MrHandle own = {};                          ///< registration of unregistered memory, or of `staging`
  std::unique_ptr<std::byte[]> staging = {};  ///< a copy of GPU memory that the adapter cannot reach
};

/// All memory registrations of a device: regions (arenas of host or GPU memory) for our own work requests, and within
/// them one remotely writable memory region for each granted place, so that the adapter itself refuses a write beyond
/// it. Memory that was not registered works too, but is registered for each use, which is slow. Any thread.
class VerbsMemory : public std::enable_shared_from_this<VerbsMemory> {
 public:
  /// Hold it by shared_ptr: registrations own it. @param sys_root where /sys is found; a test has its own.
  explicit VerbsMemory(std::shared_ptr<VerbsDevice> device, std::string sys_root = "/sys");

  /// Transport::Register and RegisterDevice. Regions do not overlap, and none is registered twice (CHECK).
  /// @return kFailedPrecondition: it cannot be registered, with advice if the memory lock limit is the cause.
  StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte> memory);
  StatusOr<std::unique_ptr<MemoryRegion>> Register(const DeviceMemory& memory);

  /// Makes `place` writable by a peer. The registration of a place in a region is made once for each owner and kept
  /// until DropOwner. @param owner the epoch of the endpoint's connection.
  /// @return kResourceExhausted: it cannot be registered.
  StatusOr<Landing> OpenPlace(uint64_t owner, std::span<std::byte> place) HP_EXCLUDES(mutex_);
  /// Makes `source` readable by our own work requests; copies it if it is GPU memory that the adapter cannot reach
  /// (blocks for that). @param inline_bytes host memory of at most so many bytes is not registered: it is posted
  /// inline.
  /// @return kResourceExhausted: it cannot be registered; errors of DeviceMemory::copy.
  StatusOr<Source> OpenSource(std::span<const std::byte> source, size_t inline_bytes) HP_EXCLUDES(mutex_);
  /// Ends all registrations of an owner's places: its keys are void. After its queue pairs are destroyed.
  void DropOwner(uint64_t owner) HP_EXCLUDES(mutex_);
  /// Ends a region and the registrations of places in it; called when its MemoryRegion is destroyed.
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
