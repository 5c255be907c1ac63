#pragma once

#include <cstdint>

namespace hp {

/// Which record is sample s, with s counted from the start of training (of the test, in a test): a function of the
/// arguments alone, so that every node of every table agrees, in O(1) and without a table. Immutable; any thread.
///
/// In order: record (s + skip) mod size. Shuffled: each epoch of `size` samples visits every record once, in an order
/// of its own: a Feistel network over the numbers below the next power of 4, keyed by (seed, epoch), walked until it
/// lands below `size` (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002).
class RecordOrder {
 public:
  /// @param size number of records, > 0.
  /// @param rand_skip Caffe's: skip a random number of records below it at the start of training; 0 and 1: none.
  RecordOrder(int64_t size, bool shuffle, uint64_t seed, uint32_t rand_skip = 0);

  /// @param sample >= 0. @return a record in [0, size).
  int64_t Record(int64_t sample) const;
  int64_t size() const { return size_; }
  /// Records that are skipped at the start.
  int64_t skip() const { return skip_; }

 private:
  int64_t Permute(int64_t epoch, int64_t position) const;

  int64_t size_;
  bool shuffle_;
  uint64_t key_;
  int64_t skip_ = 0;
  int half_bits_ = 0;
};

}  // namespace hp
