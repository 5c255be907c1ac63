#pragma once

#include "tensor/tensor.h"

#include <span>

namespace hp {

/// The channel block that `desc` amounts to: 1 where its elements lie in memory as in dense NCHW (rank below 3, one
/// pixel, one channel).
int64_t EffectiveBlock(const TensorDesc& desc);

/// Whether elements of two tensors of one shape lie in memory in the same order.
inline bool SameOrder(const TensorDesc& a, const TensorDesc& b) { return EffectiveBlock(a) == EffectiveBlock(b); }

/// to = from, all threads of the team. Equal pointers are allowed where the order is the same (nothing is done).
/// @param from,to descs of one shape, in any two layouts.
void CopyLayout(const TensorDesc& from, const float* source, const TensorDesc& to, float* target);

/// target = sources[0] + sources[1] + ..., added in that order for each element.
/// @param sources at least one; dense NCHW, of the shape of `to`.
void SumFromDense(std::span<const float* const> sources, const TensorDesc& to, float* target);

}  // namespace hp
