#pragma once

#include "backend/dropout_rule.h"

#include <cstdint>

namespace hp {

/// Computes the factors of dropout, 0 or 1 / (1 - ratio), for any range of units of one sample, vectorised: a function
/// of (stream key, sample, unit) alone, however the batch and the layer are divided. DropoutRule defines it.
class DropoutMask {
 public:
  /// @param stream_key StreamKey(seed, layer, "dropout"). @param ratio probability of 0, in [0, 1).
  DropoutMask(uint64_t stream_key, float ratio) : rule_(DropoutRule::Make(stream_key, ratio)) {}

  /// Writes factors[0, end - begin), those of units [begin, end). Any thread; cheapest in multiples of 64 units.
  /// @param sample counted from the start of training. @param begin,end in NCHW order within the whole layer, >= 0.
  void Fill(uint64_t sample, int64_t begin, int64_t end, float* factors) const;

 private:
  static constexpr int kGroup = 64;  ///< units made at once: 16 counters, one for each lane of an AVX-512 register

  void FillGroup(uint64_t sample, int64_t group, float* factors) const;

  const DropoutRule rule_;
};

}  // namespace hp
