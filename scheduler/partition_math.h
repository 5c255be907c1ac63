#pragma once

#include <compare>
#include <cstdint>

namespace hp {

/// A half-open range [begin, end).
struct Range {
  int64_t begin = 0, end = 0;

  int64_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool operator==(const Range&) const = default;
};

/// Part `index` of `count` items divided over `parts` in order: contiguous, sizes differ by at most one, and a
/// remainder is spread, not dropped. `count` x `parts` must fit in 63 bits.
constexpr Range PartOf(int64_t count, int64_t index, int64_t parts) {
  return {count * index / parts, count * (index + 1) / parts};
}

/// The samples of one micro-batch within a global batch of `batch` samples: part replica x micro_batches + micro of
/// replicas x micro_batches, so that a replica's samples lie together.
constexpr Range SamplesOf(int64_t batch, int replica, int replicas, int micro, int micro_batches) {
  return PartOf(batch, int64_t{replica} * micro_batches + micro, int64_t{replicas} * micro_batches);
}

/// The samples of a replica: all its micro-batches together.
constexpr Range SamplesOfReplica(int64_t batch, int replica, int replicas) { return PartOf(batch, replica, replicas); }

/// The outputs of an InnerProduct with `outputs` of them that shard `shard` of `shards` holds.
constexpr Range OutputsOf(int64_t outputs, int shard, int shards) { return PartOf(outputs, shard, shards); }

/// The 64-bit id of one pipeline, which is also its order: (clock, test before train, micro-batch, replica) from the
/// high bits down. Every node computes it from the table.
struct MsgId {
  static constexpr int kReplicaBits = 12, kMicroBits = 19, kClockBits = 32;
  static constexpr int64_t kMaxReplicas = int64_t{1} << kReplicaBits;
  static constexpr int64_t kMaxMicroBatches = int64_t{1} << kMicroBits;
  static constexpr int64_t kMaxClock = (int64_t{1} << kClockBits) - 1;

  uint64_t bits = 0;

  /// @param micro counts through all sub-batches of an update (iter_size) or of a test (test_iter).
  static constexpr MsgId Make(int64_t clock, bool train, int64_t micro, int64_t replica) {
    return {static_cast<uint64_t>(clock) << 32 | uint64_t{train} << 31 | static_cast<uint64_t>(micro) << kReplicaBits |
            static_cast<uint64_t>(replica)};
  }
  constexpr int64_t clock() const { return static_cast<int64_t>(bits >> 32); }
  constexpr bool train() const { return (bits >> 31 & 1) != 0; }
  constexpr int64_t micro() const { return static_cast<int64_t>(bits >> kReplicaBits & (kMaxMicroBatches - 1)); }
  constexpr int replica() const { return static_cast<int>(bits & (kMaxReplicas - 1)); }

  constexpr auto operator<=>(const MsgId&) const = default;
};

}  // namespace hp
