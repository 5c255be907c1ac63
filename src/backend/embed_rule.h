#pragma once

#include "base/host_device.h"

#include <cstdint>

namespace hp {

/// The row of a table of `rows` rows, at most 2^24, that the index of an Embed names; -1: it is not a
/// whole number in [0, rows), and what is computed with it is NaN. The same on all devices.
HP_HOST_DEVICE inline int64_t EmbedRow(float index, int64_t rows) {
  if (!(index >= 0 && index < static_cast<float>(rows))) return -1;
  const int64_t row = static_cast<int64_t>(index);
  return static_cast<float>(row) == index ? row : -1;
}

}  // namespace hp
