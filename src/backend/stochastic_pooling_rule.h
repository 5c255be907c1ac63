#pragma once

#include "base/host_device.h"
#include "base/philox.h"

#include <cstdint>

namespace hp {

/// Which of a window's values a stochastic pooling takes, the same on every device: the first at which the running sum
/// of weights reaches a share of the sum of all. The share of output u (in NCHW order) of a sample is word u % 4 of
/// Philox4x32 with key `stream_key` and counter (sample, u / 4). Values weigh themselves; those below 0, which a net
/// with a ReLU in front does not have, nothing. Samples are numbered from the start of training.
/// Source: Zeiler, Fergus, "Stochastic Pooling for Regularization of Deep Convolutional Neural Networks", 2013
/// (arXiv:1301.3557).
struct StochasticPoolingRule {
  uint64_t stream_key = 0;

  HP_HOST_DEVICE static float Weight(float x) { return x > 0 || x != x ? x : 0.0f; }
  /// In (0, 1].
  HP_HOST_DEVICE float Share(uint64_t sample, int64_t output) const {
    uint32_t words[4];
    Philox4x32(stream_key, sample, static_cast<uint64_t>(output / 4), words);
    return UnitFloat(words[output % 4]);
  }
  /// Takes a window's values one by one, twice: Add each, then TakesNext each until it says that this is the one.
  struct Choice {
    float sum = 0, squares = 0, running = 0;
    HP_HOST_DEVICE void Add(float x) {
      sum += Weight(x);
      squares += Weight(x) * Weight(x);
    }
    /// The mean with the values' own probabilities: what a test yields.
    HP_HOST_DEVICE float Mean() const { return sum == 0 ? 0.0f : squares / sum; }
    /// A NaN takes the first.
    HP_HOST_DEVICE bool TakesNext(float x, float share) {
      running += Weight(x);
      return !(running < share * sum);
    }
  };
};

}  // namespace hp
