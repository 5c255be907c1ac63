#pragma once

#include "backend/cuda/divisor.h"
#include "backend/update.h"

namespace hp::cuda {

/// Where the values of a ValueCopy stand in it.
class ValuePlace {
 public:
  ValuePlace() = default;  ///< in the values' order
  /// @param count of the values, below 2^31 unless they are in order (CHECK).
  ValuePlace(const ValueCopy& copy, int64_t count) {
    if (copy.pixel_stride == copy.channels && (copy.pixels == 1 || copy.channels == 1)) return;
    CHECK_LT(count, int64_t{1} << 31);
    channels_ = Divisor(copy.channels), pixels_ = Divisor(copy.pixels);
    stride_ = static_cast<uint32_t>(copy.pixel_stride);
  }

  HP_HOST_DEVICE bool in_order() const { return stride_ == 0; }
  /// Of value i.
  HP_HOST_DEVICE int64_t operator()(int64_t i) const {
    if (in_order()) return i;
    uint32_t pixel, channel;
    const uint32_t row = channels_.Quotient(pixels_.Quotient(static_cast<uint32_t>(i), &pixel), &channel);
    return (int64_t{row} * pixels_.value() + pixel) * stride_ + channel;
  }

 private:
  Divisor channels_{1}, pixels_{1};
  uint32_t stride_ = 0;
};

}  // namespace hp::cuda
