#pragma once

#include "tensor/tensor.h"

namespace hp::cuda {

/// Whether a tensor's elements lie in memory as in dense NCHW.
inline bool LiesDense(const TensorDesc& desc) { return desc.dense() || desc.shape.count(2) == 1; }

/// Whether they lie as in NHWC; both, where there is one channel or one pixel.
inline bool LiesNhwc(const TensorDesc& desc) {
  return desc.shape.rank() > 2 && (!desc.dense() || desc.shape[1] == 1 || desc.shape.count(2) == 1);
}

}  // namespace hp::cuda
