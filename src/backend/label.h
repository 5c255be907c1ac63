#pragma once

#include "base/host_device.h"

#include <cstdint>

namespace hp {

/// A label as Caffe reads it: the float rounded toward zero. NaN and values outside the range of an int become
/// INT64_MIN, which no class and no ignore_label equals.
HP_HOST_DEVICE inline int64_t LabelOf(float label) {
  constexpr float kLimit = 2147483648.0f;
  return label > -kLimit && label < kLimit ? static_cast<int64_t>(label) : INT64_MIN;
}

}  // namespace hp
