#pragma once

#include "base/host_device.h"

#include <cmath>
#include <cstdint>

namespace hp {

/// Which units dropout keeps, the same on every device: unit u of a sample is decided by word u % 4 of Philox4x32
/// (base/philox.h) with key `stream_key` and counter (sample, u / 4). Units are numbered in NCHW order within the whole
/// layer, samples from the start of training.
struct DropoutRule {
  uint64_t stream_key = 0;
  uint32_t threshold = 0;  ///< ratio * 2^24, rounded down; a unit is kept if the upper 24 bits of its word are >= it
  float scale = 1;         ///< 1 / (1 - ratio)

  /// @param ratio probability that a unit is dropped, in [0, 1).
  static DropoutRule Make(uint64_t stream_key, float ratio) {
    return {stream_key, static_cast<uint32_t>(std::floor(ratio * 0x1p24)), 1 / (1 - ratio)};
  }
  /// What a unit with this word is multiplied by: `scale` or 0.
  HP_HOST_DEVICE float Factor(uint32_t word) const { return (word >> 8) >= threshold ? scale : 0.0f; }
};

}  // namespace hp
