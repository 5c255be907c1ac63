#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

namespace hp {

/// A label as Caffe reads it, the whole part of a float; what no int holds (a NaN too) becomes a number that is no
/// label.
inline int64_t LabelOf(float label) {
  constexpr float kLimit = 2147483648.0f;
  return label > -kLimit && label < kLimit ? static_cast<int64_t>(label) : std::numeric_limits<int64_t>::min();
}

/// How many labels are not the ignored one.
inline int64_t CountValid(std::span<const float> labels, int ignore_label) {
  return std::count_if(labels.begin(), labels.end(), [=](float label) { return LabelOf(label) != ignore_label; });
}

}  // namespace hp
