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

}  // namespace hp
