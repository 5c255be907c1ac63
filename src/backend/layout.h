#pragma once

#include "tensor/tensor.h"

namespace hp {

/// The channel block that `desc` amounts to: 1 where its elements lie in memory as in dense NCHW (rank below 3, one
/// pixel, one channel).
inline int64_t EffectiveBlock(const TensorDesc& desc) {
  return desc.dense() || desc.shape.count(2) == 1 ? 1 : desc.channel_block;
}

/// Whether a tensor's elements lie in memory as in NHWC; where there is one channel or one pixel, as in NCHW as well.
inline bool LiesNhwc(const TensorDesc& desc) {
  return desc.shape.rank() > 2 && (!desc.dense() || desc.shape[1] == 1 || desc.shape.count(2) == 1);
}

/// Whether elements of two tensors of one shape lie in memory in the same order.
inline bool SameOrder(const TensorDesc& a, const TensorDesc& b) { return EffectiveBlock(a) == EffectiveBlock(b); }

}  // namespace hp
