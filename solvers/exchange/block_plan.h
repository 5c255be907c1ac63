#pragma once

#include "base/range.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hp {

/// How the gradients of an update are cut, to be summed over N replicas: a function of the number of replicas and of
/// the sizes of the parameters, so that all replicas have the same plan and nobody has to describe a transfer.
///
/// A collective is what is summed together: one large parameter, or a bucket of small ones. It is divided into one
/// block for each replica, and a block into chunks, which move one by one. What moves where, in which steps, is said by
/// RingPlan and DirectPlan.
///
/// Immutable; any thread.
class BlockPlan {
 public:
  struct Options {
    int rank = 0, size = 1;      ///< index of this replica, and number of replicas, of the stage
    std::vector<size_t> counts;  ///< float32 values of each parameter, in the order of Exchange::Add
    /// By parameter: whether its gradient crosses the network as it is, whatever DirectPlan says of others. Empty:
    /// none.
    std::vector<bool> exact = {};
    /// Parameters smaller than this share a bucket, until they make this much.
    size_t bucket_bytes = size_t{1} << 20;
    /// Of a chunk: a sixteenth of a block, within these limits. Small chunks are under way sooner; each costs a few
    /// wake-ups of threads, which take longer the more other work there is.
    size_t min_chunk_bytes = size_t{256} << 10, max_chunk_bytes = size_t{1} << 20;
  };
  /// What is summed together.
  struct Collective {
    std::vector<int> params = {};  ///< indices into Options::counts, ascending; several: a bucket
    bool exact = false;            ///< Options::exact of all of them
    size_t count = 0;              ///< values in all
    size_t chunk = 1;              ///< values of a chunk; a block's last one may be shorter
    uint32_t chunks = 0;           ///< of the largest block
    uint32_t first = 0;            ///< number of its first place
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

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  const std::vector<size_t>& counts() const { return options_.counts; }
  /// In the order in which their last parameters are added.
  const std::vector<Collective>& collectives() const { return collectives_; }
  /// By parameter, index into Options::counts.
  int collective_of(int param) const { return collective_of_[param]; }
  int steps() const { return steps_; }
  /// Values of the largest chunk of all.
  size_t LargestChunk() const;

  /// The number of the place for a transfer, on the link that it goes over. All numbers are below places().
  uint32_t Number(const Transfer& transfer) const;
  Transfer At(uint32_t number) const;
  uint32_t places() const { return places_; }

  /// Chunks of a block of a collective.
  uint32_t ChunksOf(int collective, int block) const;
  int64_t ValuesOfBlock(int collective, int block) const { return BlockOf(collective, block).size(); }
  /// The values of the collective that a chunk of a block has. Empty: there is no such chunk.
  Range ValuesOf(int collective, int block, uint32_t chunk) const;

 protected:
  /// @param steps in which chunks of a collective move; each has numbers of its own.
  BlockPlan(Options options, int steps);
  ~BlockPlan() = default;
  BlockPlan(const BlockPlan&) = default;
  BlockPlan(BlockPlan&&) = default;

 private:
  Range BlockOf(int collective, int block) const;
  void Close(Collective collective);

  const Options options_;
  const int steps_;
  std::vector<Collective> collectives_;
  std::vector<int> collective_of_;
  uint32_t places_ = 0;
};

}  // namespace hp
