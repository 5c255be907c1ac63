#pragma once

#include "backend/backend.h"
#include "base/host_device.h"

#include <math.h>

#include <cstdint>

namespace hp {

/// The share of a micro-batch's statistics in the moving averages of an update (BatchNormDesc); the same operations on
/// all devices.
struct BatchAverage {
  float keep = 0;      ///< of the average, by each sub-batch
  float share = 0;     ///< of the micro-batch in its sub-batch, times BatchNormDesc::share
  float unbiased = 1;  ///< the sample variance as a multiple of the variance
  uint64_t global_rows = 1;
  int sub_batches = 1;

  /// @param rows of the micro-batch. @param pixels of a channel in a row.
  static BatchAverage Make(const BatchNormDesc& desc, int64_t rows, int64_t pixels, const BatchContext& batch) {
    const float numbers = static_cast<float>(rows * pixels);
    return {.keep = desc.keep,
            .share = desc.share * (static_cast<float>(rows) / static_cast<float>(batch.global_rows)),
            .unbiased = numbers > 1 ? numbers / (numbers - 1) : 1,
            .global_rows = static_cast<uint64_t>(batch.global_rows),
            .sub_batches = batch.sub_batches};
  }
  /// @param first_sample BatchContext::first_sample.
  HP_HOST_DEVICE float WeightAt(uint64_t first_sample) const {
    const int sub_batch = static_cast<int>(first_sample / global_rows % static_cast<uint64_t>(sub_batches));
    float weight = share;
    for (int later = sub_batch + 1; later < sub_batches; ++later) weight *= keep;
    return weight;
  }
};

}  // namespace hp
