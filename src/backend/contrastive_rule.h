#pragma once

#include "base/host_device.h"

#include <math.h>

namespace hp {

/// The loss of a pair of rows at squared distance d2: d2 / 2 if they are similar, else max(0, margin - d)^2 / 2, or by
/// Caffe's first version max(0, margin - d2) / 2. The same on all devices. A NaN is handed on.
/// Source: Hadsell, Chopra and LeCun 2006; Caffe, src/caffe/layers/contrastive_loss_layer.cpp.
struct ContrastiveRule {
  float margin = 1;
  bool legacy = false;

  HP_HOST_DEVICE float Value(float d2, bool similar) const {
    if (similar) return 0.5f * d2;
    const float left = Left(d2);
    return 0.5f * (legacy ? left : left * left);
  }
  /// The gradient of the first row is this times the difference of the rows, the second one's its opposite. As Caffe's
  /// it takes the distance for 1e-4 more where it divides by it.
  HP_HOST_DEVICE float Factor(float d2, bool similar) const {
    if (similar) return 1;
    const float left = Left(d2);
    if (left == 0) return 0;
    if (legacy) return left - left - 1;  // a NaN stays
    return -left / (sqrtf(d2) + 1e-4f);
  }

 private:
  /// By how much the pair is closer than the margin.
  HP_HOST_DEVICE float Left(float d2) const {
    const float left = margin - (legacy ? d2 : sqrtf(d2));
    return left <= 0 ? 0.0f : left;
  }
};

/// Whether a label says that the rows of a pair are similar. Caffe cuts it to an integer.
HP_HOST_DEVICE inline bool SaysSimilar(float label) { return fabsf(label) >= 1; }

}  // namespace hp
