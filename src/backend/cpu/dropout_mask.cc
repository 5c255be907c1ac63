// Philox for 16 counters at once, one in each lane of an AVX-512 register; each counter yields four words, so a group
// is 64 units. Ranges that do not start or end at a group compute the whole group and copy their part.
#include "backend/cpu/dropout_mask.h"

#include <algorithm>

namespace hp {
namespace {

constexpr int kCounters = 16;

/// The upper and lower half of a 32 by 32 bit product. Two expressions rather than one shifted product: for these the
/// compiler has vector instructions, for a product of 64-bit numbers only a slow one.
inline uint32_t High(uint32_t a, uint32_t b) { return static_cast<uint32_t>((uint64_t{a} * b) >> 32); }
inline uint32_t Low(uint32_t a, uint32_t b) { return a * b; }

struct Words {
  alignas(64) uint32_t of[4][kCounters];  ///< [word][counter]
};

/// Philox4x32 of base/philox.h for counters first, first + 1, ... first + 15. The lanes are loops over arrays, which
/// the compiler turns into vector instructions; the test compares them with the original.
Words PhiloxLanes(uint64_t key, uint64_t counter_high, uint64_t first) {
  alignas(64) uint32_t c0[kCounters], c1[kCounters], c2[kCounters], c3[kCounters];
  for (uint32_t lane = 0; lane < kCounters; ++lane) {
    // `first` is a multiple of 16, so the lower half does not carry.
    c0[lane] = static_cast<uint32_t>(first) + lane;
    c1[lane] = static_cast<uint32_t>(first >> 32);
    c2[lane] = static_cast<uint32_t>(counter_high);
    c3[lane] = static_cast<uint32_t>(counter_high >> 32);
  }
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int lane = 0; lane < kCounters; ++lane) {
      const uint32_t a = c0[lane], b = c2[lane];
      c0[lane] = High(0xCD9E8D57u, b) ^ c1[lane] ^ k0;
      c2[lane] = High(0xD2511F53u, a) ^ c3[lane] ^ k1;
      c1[lane] = Low(0xCD9E8D57u, b);
      c3[lane] = Low(0xD2511F53u, a);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  Words words;
  std::copy_n(c0, kCounters, words.of[0]);
  std::copy_n(c1, kCounters, words.of[1]);
  std::copy_n(c2, kCounters, words.of[2]);
  std::copy_n(c3, kCounters, words.of[3]);
  return words;
}

}  // namespace

void DropoutMask::FillGroup(uint64_t sample, int64_t group, float* factors) const {
  const Words words = PhiloxLanes(rule_.stream_key, sample, static_cast<uint64_t>(group) * kCounters);
  const DropoutRule rule = rule_;  // or it would be loaded again after each store
  // Four stores in a row: a pattern that the compiler makes shuffles of.
  for (int lane = 0; lane < kCounters; ++lane) {
    factors[4 * lane] = rule.Factor(words.of[0][lane]);
    factors[4 * lane + 1] = rule.Factor(words.of[1][lane]);
    factors[4 * lane + 2] = rule.Factor(words.of[2][lane]);
    factors[4 * lane + 3] = rule.Factor(words.of[3][lane]);
  }
}

void DropoutMask::Fill(uint64_t sample, int64_t begin, int64_t end, float* factors) const {
  for (int64_t unit = begin; unit < end;) {
    const int64_t group = unit / kGroup, group_end = std::min(end, (group + 1) * kGroup);
    if (group_end - unit == kGroup) {
      FillGroup(sample, group, factors + (unit - begin));
    } else {
      float whole[kGroup];
      FillGroup(sample, group, whole);
      std::copy_n(whole + unit % kGroup, group_end - unit, factors + (unit - begin));
    }
    unit = group_end;
  }
}

}  // namespace hp
