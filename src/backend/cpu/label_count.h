#pragma once

#include "backend/label.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace hp {

/// How many of the labels, read by LabelOf, differ from `ignore_label`; others out of range count, as in Caffe. O(n).
inline int64_t CountValid(std::span<const float> labels, int ignore_label) {
  return std::count_if(labels.begin(), labels.end(), [=](float label) { return LabelOf(label) != ignore_label; });
}

}  // namespace hp
