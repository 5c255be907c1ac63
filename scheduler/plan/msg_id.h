#pragma once

#include <compare>
#include <cstdint>

namespace hp {

/// The id of one pipeline: of one micro-batch of one replica, on all nodes that it passes through. Ids are ordered as
/// they are worked on: by clock, tests before training, micro-batch, replica. Every node computes the same ids from the
/// table (Schedule), and transports carry them as PlaceTag::msg_id. A small value; compare it, copy it.
///
/// Bits, from the highest down: clock (32), train (1), micro-batch (19), replica (12).
struct MsgId {
  static constexpr int kReplicaBits = 12, kMicroBits = 19, kClockBits = 32;
  // The table's checks keep a job within these limits.
  static constexpr int64_t kMaxReplicas = int64_t{1} << kReplicaBits;
  static constexpr int64_t kMaxMicroBatches = int64_t{1} << kMicroBits;
  static constexpr int64_t kMaxClock = (int64_t{1} << kClockBits) - 1;

  uint64_t bits = 0;  ///< 0 is no training id: Task uses it for "no micro-batch"

  /// The arguments must be in range: they are not checked.
  /// @param clock the iteration, from 0. A test has the clock of the iteration in front of which it runs.
  /// @param micro from 0, through all sub-batches of an update (iter_size) or of all tests of its clock (test_iter).
  /// @param replica index in the first stage of the node that reads these samples.
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

/// The place of an id among all that its clock has to train with or to test with, in the order of ids, counting those
/// of micro-batches without samples. @param replicas that read samples.
constexpr int64_t TurnOf(MsgId id, int replicas) { return id.micro() * replicas + id.replica(); }

}  // namespace hp
