#pragma once

#include "base/host_device.h"

#include <cstdint>

namespace hp {

/// A half-open range [begin, end) of rows, outputs, samples or the like; begin <= end.
struct Range {
  int64_t begin = 0, end = 0;

  int64_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool operator==(const Range&) const = default;
};

/// Part `index` of `count` items divided over `parts` in order: contiguous, sizes differ by at most one, and a
/// remainder is spread, not dropped. Samples are divided over replicas and micro-batches with it, outputs over shards.
/// @param count at least 0; `count` x `parts` must fit in 63 bits. @param index 0 to parts - 1; `parts` at least 1.
constexpr Range PartOf(int64_t count, int64_t index, int64_t parts) {
  return {count * index / parts, count * (index + 1) / parts};
}

/// The index of the part that holds `item`, one of `count` items divided as PartOf does.
HP_HOST_DEVICE constexpr int64_t PartHolding(int64_t count, int64_t item, int64_t parts) {
  return ((item + 1) * parts - 1) / count;
}

}  // namespace hp
