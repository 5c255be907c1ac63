#pragma once

#include "base/host_device.h"

#include <cmath>
#include <cstdint>

namespace hp {

/// Which units dropout keeps, alike on every device: unit u of a sample takes word u % 4 of Philox counter (sample,
/// u / 4) under `stream_key`.
struct DropoutRule {
  uint64_t stream_key = 0;
  uint32_t threshold = 0;  ///< a unit is kept if the upper 24 bits of its word reach it
  float scale = 1;         ///< 1 / (1 - ratio)

  static DropoutRule Make(uint64_t stream_key, float ratio) {
    return {stream_key, static_cast<uint32_t>(std::floor(ratio * 0x1p24)), 1 / (1 - ratio)};
  }
  /// What a unit is multiplied by.
  HP_HOST_DEVICE float Factor(uint32_t word) const { return (word >> 8) >= threshold ? scale : 0.0f; }
};

}  // namespace hp
