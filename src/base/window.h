#pragma once

#include <cstdint>

namespace hp {

// Output sizes of windows that slide over an image, in pixels along one axis. Shape inference and all backends compute
// them here, so that they agree.

/// Output size of a convolution along one axis, rounded down; 0: the window does not fit.
/// @param in,kernel,pad pixels; `pad` is on each side. @param stride,dilation at least 1; dilation 1 is a dense kernel.
/// Source: Caffe, src/caffe/layers/conv_layer.cpp.
inline int64_t ConvolvedSize(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
  const int64_t rest = in + 2 * pad - (dilation * (kernel - 1) + 1);
  return rest < 0 ? 0 : rest / stride + 1;
}

/// Output size of a deconvolution along one axis: the size of an image of which a convolution of this window makes `in`
/// pixels, the smallest if there are several; < 1: the padding takes all.
/// Source: Caffe, src/caffe/layers/deconv_layer.cpp.
inline int64_t DeconvolvedSize(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
  return stride * (in - 1) + dilation * (kernel - 1) + 1 - 2 * pad;
}

/// Output size of a pooling along one axis; < 1: no window fits. With `ceil` it is rounded up, so that the last window
/// may reach beyond the image; where there is padding, a last window that would begin in the padding behind the image
/// is dropped.
/// @param ceil false: rounded down (Caffe's round_mode FLOOR). @param any_padding whether pad > 0 on either axis.
/// Source: Caffe, src/caffe/layers/pooling_layer.cpp.
inline int64_t PooledSize(int64_t in, int64_t kernel, int64_t stride, int64_t pad, bool ceil, bool any_padding) {
  const int64_t rest = in + 2 * pad - kernel;
  const int64_t up = rest > 0 ? (rest + stride - 1) / stride : -(-rest / stride);
  const int64_t down = rest > 0 ? rest / stride : -((-rest + stride - 1) / stride);
  int64_t out = (ceil ? up : down) + 1;
  if (any_padding && (out - 1) * stride >= in + pad) --out;
  return out;
}

}  // namespace hp
