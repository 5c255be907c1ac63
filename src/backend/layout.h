#pragma once

#include "tensor/tensor.h"

namespace hp {

/// The channel block that `desc` amounts to: 1 where its elements lie in memory as in dense NCHW (rank below 3, one
/// pixel, one channel).
inline int64_t EffectiveBlock(const TensorDesc& desc) {
  return desc.dense() || desc.shape.count(2) == 1 ? 1 : desc.channel_block;
}

/// Whether elements of two tensors of one shape lie in memory in the same order.
inline bool SameOrder(const TensorDesc& a, const TensorDesc& b) { return EffectiveBlock(a) == EffectiveBlock(b); }

}  // namespace hp
