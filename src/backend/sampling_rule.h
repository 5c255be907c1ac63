#pragma once

#include "base/philox.h"

#include <cmath>
#include <cstdint>

namespace hp {

/// Which classes an update draws, the same on every device and under every table: class c of clock t is decided by word
/// c % 4 of Philox4x32 with key `stream_key` and counter (t, c / 4). Classes are numbered within the whole layer.
struct SamplingRule {
  uint64_t stream_key = 0;
  uint64_t threshold = 0;  ///< rate * 2^32, rounded down; a class is drawn if its word is below it

  /// @param stream_key StreamKey(seed, layer, "sample"). @param rate probability that a class is drawn, in (0, 1].
  static SamplingRule Make(uint64_t stream_key, double rate) {
    return {stream_key, static_cast<uint64_t>(std::floor(rate * 0x1p32))};
  }
  /// Calls `take(class)` for each class of [begin, end) that is drawn, ascending.
  template <typename Take>
  void Draw(uint64_t clock, int64_t begin, int64_t end, const Take& take) const {
    uint32_t words[4] = {};
    for (int64_t c = begin; c < end; ++c) {
      if (c == begin || c % 4 == 0) Philox4x32(stream_key, clock, static_cast<uint64_t>(c / 4), words);
      if (words[c % 4] < threshold) take(c);
    }
  }
};

}  // namespace hp
