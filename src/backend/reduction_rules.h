#pragma once

#include "base/host_device.h"

#include <cstdint>

// What Reduction and ArgMax do with an element, the same on all devices.
namespace hp {

/// What an element adds to a sum, and the derivative of that.
struct ReductionRule {
  enum Operation { kSum, kAbsSum, kSquareSum } operation = kSum;
  HP_HOST_DEVICE float Term(float x) const {
    if (operation == kSum) return x;
    return operation == kAbsSum ? (x < 0 ? -x : x) : x * x;
  }
  HP_HOST_DEVICE float Slope(float x) const {
    if (operation == kSum) return 1;
    const float sign = (x > 0 ? 1.0f : 0.0f) - (x < 0 ? 1.0f : 0.0f);
    return operation == kAbsSum ? sign : 2 * x;
  }
};

/// An element and where it stood. Larger ones go first, a NaN before all; of equal ones the last, as in Caffe.
struct RankedElement {
  float value = 0;
  int64_t index = -1;  ///< -1: none

  HP_HOST_DEVICE bool IsBefore(const RankedElement& other) const {
    if (index < 0 || other.index < 0) return other.index < 0 && index >= 0;
    const bool nan = value != value, other_nan = other.value != other.value;
    if (nan || other_nan) return nan != other_nan ? nan : index > other.index;
    return value != other.value ? value > other.value : index > other.index;
  }
};

}  // namespace hp
