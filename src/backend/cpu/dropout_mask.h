#pragma once

#include <cstdint>

namespace hp {

/// The factors of dropout, 0 or 1 / (1 - ratio), for any run of units of one sample. Unit u takes word u % 4 of Philox
/// counter u / 4: a function of (stream key, sample, unit) alone, however the batch and the layer are divided.
class DropoutMask {
 public:
  DropoutMask(uint64_t stream_key, float ratio);

  /// factors[0, end - begin) = those of units [begin, end), counted within the whole layer; begin >= 0. Any thread.
  void Fill(uint64_t sample, int64_t begin, int64_t end, float* factors) const;

 private:
  static constexpr int kGroup = 64;  ///< units made at once: 16 counters, one for each lane of an AVX-512 register

  void FillGroup(uint64_t sample, int64_t group, float* factors) const;

  const uint64_t stream_key_;
  const uint32_t threshold_;  ///< a unit is kept if the upper 24 bits of its word reach it
  const float scale_;
};

}  // namespace hp
