#pragma once

#include "base/host_device.h"
#include "base/range.h"
#include "tensor/tensor.h"

#include <algorithm>
#include <cstdint>
#include <span>

// What shards say of their classes, as kernels read it. Only for .cu files.
namespace hp::cuda {

/// Some of the dense tensors [rows, width] that `shards` shards said: `count` of them, from shard `first` on.
struct ShardRows {
  static constexpr int64_t kMost = 16;  ///< of one kernel

  const float* of[kMost] = {};
  int64_t first = 0, count = 0, shards = 0, width = 0;

  HP_HOST_DEVICE bool begins() const { return first == 0; }
  HP_HOST_DEVICE bool ends() const { return first + count == shards; }
  HP_HOST_DEVICE const float* Row(int64_t shard, int64_t row) const { return of[shard] + row * width; }
  /// What the shard of class `label`, one of `classes` divided as ClassSlice says, said of `row`; null: it is not one
  /// of these.
  HP_HOST_DEVICE const float* RowOfHolder(int64_t row, int64_t label, int64_t classes) const {
    const int64_t shard = PartHolding(classes, label, shards) - first;
    return shard >= 0 && shard < count ? Row(shard, row) : nullptr;
  }
};

/// Calls visit(ShardRows) for at most kMost shards at a time, in the order of shards.
template <typename Visit>
void ForShards(std::span<const Tensor> said, int64_t width, const Visit& visit) {
  ShardRows some;
  some.shards = static_cast<int64_t>(said.size()), some.width = width;
  for (; some.first < some.shards; some.first += ShardRows::kMost) {
    some.count = std::min(ShardRows::kMost, some.shards - some.first);
    for (int64_t i = 0; i < some.count; ++i) some.of[i] = said[some.first + i].floats();
    visit(some);
  }
}

}  // namespace hp::cuda
