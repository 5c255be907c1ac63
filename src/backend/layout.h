#pragma once

#include "tensor/tensor.h"

namespace hp {

// Comparing layouts by the order of elements in memory, since different channel blocks can mean the same order.

/// The channel block of `desc`, or 1 where that makes no difference to the order of elements (rank below 3, one pixel).
inline int64_t EffectiveBlock(const TensorDesc& desc) {
  return desc.dense() || desc.shape.count(2) == 1 ? 1 : desc.channel_block;
}

/// Whether the elements are in NHWC order. For the layouts of a GPU, dense or NHWC: a block of 8 within more channels
/// also counts. With one channel or one pixel NCHW order is NHWC order too.
inline bool LiesNhwc(const TensorDesc& desc) {
  return desc.shape.rank() > 2 && (!desc.dense() || desc.shape[1] == 1 || desc.shape.count(2) == 1);
}

/// Whether two tensors of one shape have their elements in the same order. Element types are not compared.
inline bool SameOrder(const TensorDesc& a, const TensorDesc& b) { return EffectiveBlock(a) == EffectiveBlock(b); }

}  // namespace hp
