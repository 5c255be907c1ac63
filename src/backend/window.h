#pragma once

#include "backend/backend.h"
#include "base/window.h"

namespace hp {

/// The shape [N, C, H', W'] of a pooling's output for an input [N, C, H, W], by PooledSize (base/window.h); global
/// pooling gives [N, C, 1, 1]. H' or W' < 1: no window fits, which the layers report as an error.
inline Shape PooledShape(const PoolingDesc& desc, const Shape& in) {
  if (desc.global) return Shape{in[0], in[1], 1, 1};
  const bool padding = desc.pad_h > 0 || desc.pad_w > 0;
  return Shape{in[0], in[1], PooledSize(in[2], desc.kernel_h, desc.stride_h, desc.pad_h, desc.ceil, padding),
               PooledSize(in[3], desc.kernel_w, desc.stride_w, desc.pad_w, desc.ceil, padding)};
}

/// The shape [N, num_output, H', W'] of a convolution's output for an input [N, C, H, W].
inline Shape ConvolvedShape(const ConvolutionDesc& desc, const Shape& in) {
  return {in[0], desc.num_output, ConvolvedSize(in[2], desc.kernel_h, desc.stride_h, desc.pad_h, desc.dilation_h),
          ConvolvedSize(in[3], desc.kernel_w, desc.stride_w, desc.pad_w, desc.dilation_w)};
}

/// The same of a deconvolution's.
inline Shape DeconvolvedShape(const ConvolutionDesc& desc, const Shape& in) {
  return {in[0], desc.num_output, DeconvolvedSize(in[2], desc.kernel_h, desc.stride_h, desc.pad_h, desc.dilation_h),
          DeconvolvedSize(in[3], desc.kernel_w, desc.stride_w, desc.pad_w, desc.dilation_w)};
}

}  // namespace hp
