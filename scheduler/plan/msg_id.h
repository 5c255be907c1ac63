#pragma once

#include <compare>
#include <cstdint>

namespace hp {

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
