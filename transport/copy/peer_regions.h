#pragma once

#include "base/mutex.h"
#include "transport/copy/device_copier.h"
#include "transport/copy/messages.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace hp {

/// The regions of one peer's memory in which it grants places. A region is opened by the first copy into it,
/// because opening takes milliseconds. Any thread, except Open and Close.
class PeerRegions {
 public:
  /// Adds an announced region. @return kInvalidArgument: its number is taken, or there are kMaxRegions already.
  Status Add(const CopyRegion& region) HP_EXCLUDES(mutex_);
  /// Checks a granted place. @return kInvalidArgument: the region was not announced, or the place is not within it.
  Status Check(uint32_t region, uint64_t offset, uint64_t bytes) const HP_EXCLUDES(mutex_);
  /// The address of the region's start for our device; opens it if need be. `region` has passed Check. Errors as
  /// DeviceCopier::Open. The copy queue's thread.
  StatusOr<std::byte*> Open(uint32_t region, DeviceCopier* copier) HP_EXCLUDES(mutex_);
  /// Closes all regions that are open; no copy into them may be pending. The copy queue's thread, or after it has
  /// ended.
  void Close(DeviceCopier* copier) HP_EXCLUDES(mutex_);

 private:
  static constexpr size_t kMaxRegions = 1024;
  struct Region {
    uint64_t bytes = 0;
    std::string handle;
    std::byte* opened = nullptr;
  };

  mutable Mutex mutex_;  // innermost; not held while the device is asked, which may take milliseconds
  std::map<uint32_t, Region> regions_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
