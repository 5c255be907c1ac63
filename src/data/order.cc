#include "data/order.h"

#include "base/philox.h"

#include <glog/logging.h>

namespace hp {
namespace {

// Four rounds already make a strong pseudorandom permutation of a good round function (Luby and Rackoff, 1988); small
// domains get some more.
constexpr int kRounds = 8;

// Bits of each half, so that 2^(2 half) >= size: the domain is less than four times the records.
int HalfBits(int64_t size) {
  int half = 1;
  while (half < 31 && (int64_t{1} << (2 * half)) < size) ++half;
  return half;
}

}  // namespace

RecordOrder::RecordOrder(int64_t size, bool shuffle, uint64_t seed, uint32_t rand_skip)
    : size_(size), shuffle_(shuffle), key_(StreamKey(seed, "", "shuffle")), half_bits_(HalfBits(size)) {
  CHECK_GT(size, 0);
  CHECK_LE(size, int64_t{1} << 62);
  if (rand_skip > 1) skip_ = Philox4x32(StreamKey(seed, "", "rand_skip"), 0, 0)[0] % rand_skip;
}

int64_t RecordOrder::Record(int64_t sample) const {
  DCHECK_GE(sample, 0);
  const int64_t position = sample + skip_;
  return shuffle_ ? Permute(position / size_, position % size_) : position % size_;
}

int64_t RecordOrder::Permute(int64_t epoch, int64_t position) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t value = static_cast<uint64_t>(position);
  do {
    uint64_t left = value >> half_bits_, right = value & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t mixed = Philox4x32(key_, static_cast<uint64_t>(epoch), round << 32 | right)[0] & mask;
      const uint64_t next = left ^ mixed;
      left = right;
      right = next;
    }
    value = left << half_bits_ | right;
  } while (value >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(value);
}

}  // namespace hp
