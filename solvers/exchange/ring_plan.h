#pragma once

#include "base/range.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hp {

/// What goes round the ring in each update: a function of the replica, the number of replicas and the sizes of the
/// parameters, so that all replicas have the same plan and nobody has to describe a transfer.
///
/// A collective is what is summed together: one large parameter, or a bucket of small ones. It is divided into one
/// block for each of the N replicas, and goes round in 2N - 2 steps: in step s, replica r sends block r - s (modulo N)
/// to r + 1, in chunks. In the first N - 1 steps (reduce-scatter) the receiver adds a chunk to its own values, in the
/// others (allgather) what comes is the sum. So block b is added in the order b, b + 1, ..., b + N - 1 of the replicas,
/// and every replica gets the bits of that one sum.
///
/// Immutable; any thread.
class RingPlan {
 public:
  struct Options {
    int rank = 0, size = 1;      ///< index of this replica, and number of replicas, of the stage
    std::vector<size_t> counts;  ///< float32 values of each parameter, in the order of Exchange::Add
    /// Parameters smaller than this share a bucket, until they make this much.
    size_t bucket_bytes = size_t{1} << 20;
    /// Of a chunk: a sixteenth of a block, within these limits. Small chunks fill the ring sooner; each costs a few
    /// wake-ups of threads, which take longer the more other work there is.
    size_t min_chunk_bytes = size_t{256} << 10, max_chunk_bytes = size_t{1} << 20;
  };
  /// What is summed together.
  struct Collective {
    std::vector<int> params;  ///< indices into Options::counts, ascending; several: a bucket
    size_t count = 0;         ///< values in all
    size_t chunk = 1;         ///< values of a chunk; a block's last one may be shorter
    uint32_t chunks = 0;      ///< of the largest block
    uint32_t first = 0;       ///< number of its first place
  };
  /// One chunk in one step.
  struct Transfer {
    int collective = 0;
    int step = 0;
    uint32_t chunk = 0;  ///< of the block that moves in this step
    bool operator==(const Transfer&) const = default;
  };
  /// Of a collective, in all blocks, beside a remainder in each: beyond that, chunks are larger than max_chunk_bytes.
  static constexpr size_t kMaxChunks = 8192;

  explicit RingPlan(Options options);

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  const std::vector<size_t>& counts() const { return options_.counts; }
  /// In the order in which their last parameters are added.
  const std::vector<Collective>& collectives() const { return collectives_; }
  /// By parameter, index into Options::counts.
  int collective_of(int param) const { return collective_of_[param]; }

  int steps() const { return 2 * options_.size - 2; }
  /// Whether what arrives in a step is added, and not yet the sum.
  bool adds(int step) const { return step < options_.size - 1; }

  /// The number of the place for a transfer, on the link that it goes over. All numbers are below places().
  uint32_t Number(const Transfer& transfer) const;
  Transfer At(uint32_t number) const;
  uint32_t places() const { return places_; }

  /// Chunks that this replica sends, or receives, in a step.
  uint32_t SentChunks(int collective, int step) const { return ChunksOf(collective, SentBlock(step)); }
  uint32_t ReceivedChunks(int collective, int step) const { return ChunksOf(collective, SentBlock(step + 1)); }
  /// The values of the collective that a transfer moves: from this replica, or to it. Empty: there is no such chunk.
  Range Sent(const Transfer& transfer) const { return ValuesOf(transfer, SentBlock(transfer.step)); }
  Range Received(const Transfer& transfer) const { return ValuesOf(transfer, SentBlock(transfer.step + 1)); }
  /// By number: bytes of the place that the right neighbour grants us; 0: it grants none of this number.
  std::vector<size_t> SentBytes() const;

 private:
  /// The block that this replica sends in a step; it receives the one before, which it sends in the next step.
  int SentBlock(int step) const;
  Range BlockOf(int collective, int block) const;
  uint32_t ChunksOf(int collective, int block) const;
  Range ValuesOf(const Transfer& transfer, int block) const;
  void Close(Collective collective);

  const Options options_;
  std::vector<Collective> collectives_;
  std::vector<int> collective_of_;
  uint32_t places_ = 0;
};

}  // namespace hp
