#pragma once

#include "backend/dropout_rule.h"

#include <cstdint>

namespace hp {

/// The factors of dropout, 0 or 1 / (1 - ratio), for any run of units of one sample: a function of (stream key, sample,
/// unit) alone, however the batch and the layer are divided.
class DropoutMask {
 public:
  DropoutMask(uint64_t stream_key, float ratio) : rule_(DropoutRule::Make(stream_key, ratio)) {}

  /// factors[0, end - begin) = those of units [begin, end), counted within the whole layer; begin >= 0. Any thread.
  void Fill(uint64_t sample, int64_t begin, int64_t end, float* factors) const;

 private:
  static constexpr int kGroup = 64;  ///< units made at once: 16 counters, one for each lane of an AVX-512 register

  void FillGroup(uint64_t sample, int64_t group, float* factors) const;

  const DropoutRule rule_;
};

}  // namespace hp
