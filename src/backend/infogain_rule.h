#pragma once

#include "base/host_device.h"

#include <math.h>

namespace hp {

/// A class in a row of an InfogainLoss: what it adds to the loss, -gain * log(probability), and the gradient of its
/// logit. `gain` is the matrix's element for the row's label and the class, `sum` the sum of the label's row of the
/// matrix. As Caffe's, the loss takes the logarithm of no less than 1e-20, which the gradient leaves out. The same on
/// all devices. A NaN is handed on.
/// Source: Caffe, src/caffe/layers/infogain_loss_layer.cpp.
struct InfogainRule {
  HP_HOST_DEVICE static double Loss(float gain, float probability) {
    return -static_cast<double>(gain) * static_cast<double>(logf(probability < 1e-20f ? 1e-20f : probability));
  }
  HP_HOST_DEVICE static float Gradient(float gain, float sum, float probability) { return probability * sum - gain; }
};

}  // namespace hp
