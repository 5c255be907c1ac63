#pragma once

#include "backend/cuda/divisor.h"
#include "backend/layout.h"

#include <cstdint>

namespace hp {

/// Elements from one image, channel or pixel of a tensor to the next, in either layout. For kernels.
struct ChannelStrides {
  int64_t image, channel, pixel;

  explicit ChannelStrides(const TensorDesc& desc)
      : image(desc.shape.count(1)),
        channel(LiesNhwc(desc) ? 1 : desc.shape.count(2)),
        pixel(LiesNhwc(desc) ? desc.shape[1] : 1) {}
};

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
