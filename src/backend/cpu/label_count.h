#pragma once

#include "backend/label.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace hp {

/// How many labels are not the ignored one.
inline int64_t CountValid(std::span<const float> labels, int ignore_label) {
  return std::count_if(labels.begin(), labels.end(), [=](float label) { return LabelOf(label) != ignore_label; });
}

}  // namespace hp
