#pragma once

#include "backend/backend.h"
#include "base/host_device.h"

#include <cmath>

namespace hp {

/// What a MarginDesc makes of the cosine x of a class, clamped to [-1, 1]; a NaN stays.
/// Source: InsightFace's combined margin loss; Deng et al., "ArcFace", 2019 (arXiv:1801.07698), section 2.4.
class MarginRule {
 public:
  explicit MarginRule(const MarginDesc& desc)
      : scale_(desc.scale),
        cos_angle_(static_cast<float>(std::cos(static_cast<double>(desc.angle)))),
        sin_angle_(static_cast<float>(std::sin(static_cast<double>(desc.angle)))),
        cosine_(desc.cosine) {}

  /// Of a class that is not the label.
  HP_HOST_DEVICE float Logit(float x) const { return scale_ * Clamped(x); }
  /// Of the label: cos(theta + angle) by the sum of angles; the sine of theta, which is in [0, pi], is not negative.
  HP_HOST_DEVICE float LabelLogit(float x) const {
    const float cosine = Clamped(x), sine = sqrtf((1 - cosine) * (1 + cosine));
    return scale_ * (cosine * cos_angle_ - sine * sin_angle_ - cosine_);
  }

 private:
  HP_HOST_DEVICE static float Clamped(float x) {
    const float low = x < -1 ? -1.0f : x;
    return low > 1 ? 1.0f : low;
  }

  float scale_, cos_angle_, sin_angle_, cosine_;
};

}  // namespace hp
