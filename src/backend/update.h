#pragma once

#include "base/element_type.h"
#include "base/host_device.h"

#include <math.h>

#include <cstdint>

namespace hp {

/// How a gradient changes a parameter: one of Caffe's solver types. With g the gradient below, w the weights, h the
/// history and k the second one:
enum class UpdateRule : uint8_t {
  kSgd,       ///< h = keep h + rate g;           w -= h
  kNesterov,  ///< h' = keep h + rate g;          w -= (1 + keep) h' - keep h;  h = h'
  kSquares,   ///< h = keep h + add g^2;          w -= rate g / (sqrt(h) + delta): AdaGrad and RMSProp
  kAdaDelta,  ///< h = keep h + (1 - keep) g^2;   u = g sqrt((k + delta) / (h + delta));  w -= rate u
              ///< k = keep k + (1 - keep) u^2
  kAdam,      ///< h = keep h + (1 - keep) g;     k = keep2 k + (1 - keep2) g^2;  w -= rate h / (sqrt(k) + delta)
  kAverage,   ///< w = keep w + gradient: a moving average of statistics, of no solver's type; no history, no g
};

/// One update of one parameter:
///   g = gradient_scale * gradient + l2 * w + l1 * sign(w)
/// and then the rule. In SGD and Nesterov the learning rate is inside the history, so a change of rate acts on new
/// gradients only. Sources: Caffe, src/caffe/solvers/{sgd,nesterov,adagrad,rmsprop,adadelta,adam}_solver.cpp.
struct UpdateCoefficients {
  float rate = 0;        ///< learning rate times lr_mult; kAdam: and times the correction of its moments
  float keep = 0;        ///< of the history: momentum, or rms_decay; AdaGrad: 1. kAverage: of the average
  float l2 = 0, l1 = 0;  ///< weight_decay times decay_mult in the one that regularization_type names, the other 0
  /// Clip scale / iter_size / loss scale, in this order: Caffe clips the sum over iter_size, then divides.
  float gradient_scale = 1;
  float delta = 0;  ///< kSquares, kAdaDelta, kAdam
  float keep2 = 0;  ///< of the second history: kAdam
  UpdateRule rule = UpdateRule::kSgd;
};

/// Whether a rule has a second history.
HP_HOST_DEVICE constexpr bool HasSecond(UpdateRule rule) {
  return rule == UpdateRule::kAdaDelta || rule == UpdateRule::kAdam;
}

/// The update of one element, on the host or in a kernel; the same operations on all devices.
/// @param history not used for kAverage. @param second used where HasSecond(kRule). @tparam kRule c.rule. @tparam kL1
/// whether c.l1 is read; false saves its cost where l1 is 0.
template <UpdateRule kRule, bool kL1>
HP_HOST_DEVICE inline void UpdateStep(const UpdateCoefficients& c, float gradient, float* history, float* second,
                                      float* weight) {
  if constexpr (kRule == UpdateRule::kAverage) {
    *weight = c.keep * *weight + gradient;
    return;
  }
  const float w = *weight, before = *history;
  float g = c.gradient_scale * gradient + c.l2 * w;
  if (kL1) g += c.l1 * (static_cast<float>(w > 0) - static_cast<float>(w < 0));
  if (kRule == UpdateRule::kSquares) {
    const float add = c.keep == 1 ? 1.0f : 1 - c.keep;
    const float h = c.keep * before + add * g * g;
    *history = h;
    *weight = w - c.rate * g / (sqrtf(h) + c.delta);
    return;
  }
  if (kRule == UpdateRule::kAdaDelta) {
    const float h = c.keep * before + (1 - c.keep) * g * g, k = *second;
    const float u = g * sqrtf((k + c.delta) / (h + c.delta));
    *history = h;
    *second = c.keep * k + (1 - c.keep) * u * u;
    *weight = w - c.rate * u;
    return;
  }
  if (kRule == UpdateRule::kAdam) {
    const float h = c.keep * before + (1 - c.keep) * g, k = c.keep2 * *second + (1 - c.keep2) * g * g;
    *history = h;
    *second = k;
    *weight = w - c.rate * h / (sqrtf(k) + c.delta);
    return;
  }
  const float h = c.keep * before + c.rate * g;
  *history = h;
  *weight = w - (kRule == UpdateRule::kSgd ? h : (1 + c.keep) * h - c.keep * before);
}

/// A copy of a parameter's values [A, channels, pixels] in another order and element type: [A, pixels, pixel_stride],
/// as convolutions in NHWC read their weights. Places behind the channels of a pixel stay as they are. With one channel
/// and one pixel the order is that of the values.
struct ValueCopy {
  void* data = nullptr;  ///< null: there is no copy
  ElementType element = ElementType::kFloat32;
  int64_t channels = 1, pixels = 1;
  int64_t pixel_stride = 1;  ///< elements from one pixel to the next, at least `channels`
};

/// A parameter in an update, or any range of its elements: elements do not depend on each other. The arrays are
/// [n] float32 in the device's memory and do not overlap, nor do those of different parts of one call.
struct UpdatePart {
  UpdateCoefficients coefficients;
  int64_t n = 0;
  const float* gradient = nullptr;
  float *history = nullptr, *weights = nullptr;  ///< history: null for kAverage
  float* second = nullptr;                       ///< the second history; null unless HasSecond
  ValueCopy copy = {};                           ///< is written, too; only of a whole parameter, and only on a GPU
  /// Becomes a NaN if a gradient is not finite, else stays as it is: what SquaresPart would say, without a pass of its
  /// own over the gradient. Null: nobody asks.
  double* not_finite = nullptr;
};

/// An array whose sum of squares is wanted, and where the result goes. All in the device's memory.
struct SquaresPart {
  const float* values = nullptr;  ///< [n]
  int64_t n = 0;
  double* sum = nullptr;  ///< overwritten
};

}  // namespace hp
