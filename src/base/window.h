#pragma once

#include <cstdint>

namespace hp {

// Sizes of what windows that slide over an image yield: shape inference and all backends compute them here.

/// Output size of a convolution along one axis, Caffe's formula (rounded down); < 1: the window does not fit.
inline int64_t ConvolvedSize(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
  const int64_t rest = in + 2 * pad - (dilation * (kernel - 1) + 1);
  return rest < 0 ? 0 : rest / stride + 1;
}

/// Output size of a pooling along one axis, Caffe's formula: rounded up, then, where there is padding on either axis,
/// without a last window that would begin in the padding behind the image. < 1: no window.
inline int64_t PooledSize(int64_t in, int64_t kernel, int64_t stride, int64_t pad, bool ceil, bool any_padding) {
  const int64_t rest = in + 2 * pad - kernel;
  const int64_t up = rest > 0 ? (rest + stride - 1) / stride : -(-rest / stride);
  int64_t out = (ceil || rest < 0 ? up : rest / stride) + 1;
  if (any_padding && (out - 1) * stride >= in + pad) --out;
  return out;
}

}  // namespace hp
