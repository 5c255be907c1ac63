#pragma once

#include "base/host_device.h"

#include <cstdint>

namespace hp {

/// A label as Caffe reads it, the whole part of a float; what no int holds (a NaN too) becomes a number that is no
/// label.
HP_HOST_DEVICE inline int64_t LabelOf(float label) {
  constexpr float kLimit = 2147483648.0f;
  return label > -kLimit && label < kLimit ? static_cast<int64_t>(label) : INT64_MIN;
}

}  // namespace hp
