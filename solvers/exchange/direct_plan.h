#pragma once

#include "solvers/exchange/block_plan.h"

#include <cstddef>
#include <vector>

namespace hp {

/// What every two replicas send each other in each update, where gradients cross the network in bfloat16. Block b of a
/// collective is owned by replica b, and moves in two steps: in the first each replica sends its part of it to the
/// owner, who adds all parts in the order of replicas, in float32; in the second the owner sends the sum to all. So
/// each value is rounded once by who made it and once by the owner, whatever N is, where a ring would round at each of
/// N - 1 hops. Collectives that are exact move in the same steps, in float32.
class DirectPlan : public BlockPlan {
 public:
  /// Step of a Transfer.
  enum Step { kParts = 0, kSum = 1 };

  explicit DirectPlan(Options options) : BlockPlan(std::move(options), 2) {}

  /// Bytes of a value of a collective on its way.
  size_t ValueBytes(int collective) const { return collectives()[collective].exact ? 4 : 2; }
  /// The block that a transfer of `step` from `writer` to `granter` moves: the granter's own parts, or the writer's
  /// sums.
  static int BlockFor(int step, int granter, int writer) { return step == kParts ? granter : writer; }
  /// By number: bytes of the place that replica `granter` grants this one; 0: it grants none of this number.
  std::vector<size_t> BytesFrom(int granter) const;
};

}  // namespace hp
