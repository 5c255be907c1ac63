#include "backend/cpu/dropout_mask.h"

#include <algorithm>
#include <cmath>

namespace hp {
namespace {

constexpr int kLanes = 16;

/// Philox4x32 of base/philox.h for 16 counters at once: words[k][lane] is word k of counter `first + lane`. The lanes
/// are loops over arrays, which the compiler turns into vector instructions; the test compares them with the original.
void PhiloxLanes(uint64_t key, uint64_t counter_high, uint64_t first, uint32_t words[4][kLanes]) {
  uint32_t* c0 = words[0];
  uint32_t* c1 = words[1];
  uint32_t* c2 = words[2];
  uint32_t* c3 = words[3];
  for (int lane = 0; lane < kLanes; ++lane) {
    c0[lane] = static_cast<uint32_t>(first + lane);
    c1[lane] = static_cast<uint32_t>((first + lane) >> 32);
    c2[lane] = static_cast<uint32_t>(counter_high);
    c3[lane] = static_cast<uint32_t>(counter_high >> 32);
  }
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint64_t product0 = uint64_t{0xD2511F53u} * c0[lane], product1 = uint64_t{0xCD9E8D57u} * c2[lane];
      c0[lane] = static_cast<uint32_t>(product1 >> 32) ^ c1[lane] ^ k0;
      c2[lane] = static_cast<uint32_t>(product0 >> 32) ^ c3[lane] ^ k1;
      c1[lane] = static_cast<uint32_t>(product1);
      c3[lane] = static_cast<uint32_t>(product0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

}  // namespace

DropoutMask::DropoutMask(uint64_t stream_key, float ratio)
    : stream_key_(stream_key), threshold_(static_cast<uint32_t>(std::floor(ratio * 0x1p24))), scale_(1 / (1 - ratio)) {}

void DropoutMask::FillGroup(uint64_t sample, int64_t group, float* factors) const {
  alignas(64) uint32_t words[4][kLanes];
  PhiloxLanes(stream_key_, sample, static_cast<uint64_t>(group) * kLanes, words);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int k = 0; k < 4; ++k) factors[4 * lane + k] = (words[k][lane] >> 8) >= threshold_ ? scale_ : 0;
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
