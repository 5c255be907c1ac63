#pragma once

#include "backend/cuda/divisor.h"

#include <cstdint>

namespace hp {

/// Where the channels of a pixel lie: side by side (NHWC), or in groups, [groups][pixels of all images][channels /
/// groups]. Counts channels, or packs of them. For kernels.
struct ChannelPlaces {
  Divisor per_group;  ///< channels, or packs
  int64_t pixels;     ///< of all images

  HP_HOST_DEVICE int64_t At(int64_t pixel, uint32_t channel) const {
    uint32_t within;
    const int64_t group = per_group.Quotient(channel, &within);
    return (group * pixels + pixel) * per_group.value() + within;
  }
};

}  // namespace hp
