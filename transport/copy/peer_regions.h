#pragma once

#include "base/mutex.h"
#include "transport/copy/device_copier.h"
#include "transport/copy/messages.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace hp {

/// Memory of one peer's GPU in which it grants places, each region opened by the first copy into it.
class PeerRegions {
 public:
  /// @return kInvalidArgument: it is there already, or there are kMaxRegions.
  Status Add(const CopyRegion& region) HP_EXCLUDES(mutex_);
  /// @return kInvalidArgument: such a place lies in no region.
  Status Check(uint32_t region, uint64_t offset, uint64_t bytes) const HP_EXCLUDES(mutex_);
  /// Where the region begins for our GPU. Errors as DeviceCopier::Open. One thread at a time, with Close.
  StatusOr<std::byte*> Open(uint32_t region, DeviceCopier* copier) HP_EXCLUDES(mutex_);
  /// Closes what was opened.
  void Close(DeviceCopier* copier) HP_EXCLUDES(mutex_);

 private:
  static constexpr size_t kMaxRegions = 1024;
  struct Region {
    uint64_t bytes = 0;
    std::string handle;
    std::byte* opened = nullptr;
  };

  mutable Mutex mutex_;  // innermost; not held while the GPU is asked, which may take milliseconds
  std::map<uint32_t, Region> regions_ HP_GUARDED_BY(mutex_);
};

}  // namespace hp
