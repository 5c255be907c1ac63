#pragma once

#include "solvers/exchange/block_plan.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hp {

/// What goes round a ring of N replicas in each update. A collective goes round in 2N - 2 steps: in step s, replica r
/// sends block r - s (modulo N) to r + 1, in chunks. In the first N - 1 steps (reduce-scatter) the receiver adds a
/// chunk to its own values, in the others (allgather) what comes is the sum. So block b is added in the order b, b + 1,
/// ..., b + N - 1 of the replicas, and every replica gets the bits of that one sum.
class RingPlan : public BlockPlan {
 public:
  explicit RingPlan(const Options& options) : BlockPlan(options, 2 * options.size - 2) {}

  int left() const { return (rank() + size() - 1) % size(); }
  int right() const { return (rank() + 1) % size(); }
  /// Whether what arrives in a step is added, and not yet the sum.
  bool adds(int step) const { return step < size() - 1; }

  /// Chunks that this replica sends, or receives, in a step.
  uint32_t SentChunks(int collective, int step) const { return ChunksOf(collective, SentBlock(step)); }
  uint32_t ReceivedChunks(int collective, int step) const { return ChunksOf(collective, SentBlock(step + 1)); }
  /// The values of the collective that a transfer moves: from this replica, or to it. Empty: there is no such chunk.
  Range Sent(const Transfer& transfer) const {
    return ValuesOf(transfer.collective, SentBlock(transfer.step), transfer.chunk);
  }
  Range Received(const Transfer& transfer) const {
    return ValuesOf(transfer.collective, SentBlock(transfer.step + 1), transfer.chunk);
  }
  /// By number: bytes of the place that the right neighbour grants us; 0: it grants none of this number.
  std::vector<size_t> SentBytes() const;

 private:
  /// The block that this replica sends in a step; it receives the one before, which it sends in the next step.
  int SentBlock(int step) const { return ((rank() - step) % size() + size()) % size(); }
};

}  // namespace hp
