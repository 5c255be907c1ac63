#pragma once

#include <cstdint>

namespace hp {

/// Which record of the dataset is sample s, with s counted from the start of training (or of the test). It depends only
/// on the constructor's arguments and s, so all nodes of all routing tables agree; O(1) time and memory. A value;
/// immutable, any thread.
///
/// In order: record (s + skip) mod size. Shuffled: each epoch of `size` samples visits every record once, in an order
/// of its own: a Feistel network over the numbers below the next power of 4, keyed by (seed, epoch), applied again
/// until the result is below `size` (cycle walking). Source: Black, Rogaway, "Ciphers with Arbitrary Finite Domains",
/// CT-RSA 2002.
class RecordOrder {
 public:
  /// @param size number of records, > 0.
  /// @param shuffle a random order in each epoch; false: the order of the keys. @param seed the job's.
  /// @param rand_skip Caffe's field: skips a random number of records, less than it, at the start; 0 and 1: none.
  RecordOrder(int64_t size, bool shuffle, uint64_t seed, uint32_t rand_skip = 0);

  /// @param sample >= 0. @return a record in [0, size).
  int64_t Record(int64_t sample) const;
  int64_t size() const { return size_; }  ///< records
  /// The number of records skipped at the start, chosen by rand_skip.
  int64_t skip() const { return skip_; }

 private:
  int64_t Permute(int64_t epoch, int64_t position) const;

  int64_t size_;
  bool shuffle_;
  uint64_t key_;  // of Philox, for the rounds of the Feistel network
  int64_t skip_ = 0;
  int half_bits_ = 0;  // of each half of a number in the network
};

}  // namespace hp
