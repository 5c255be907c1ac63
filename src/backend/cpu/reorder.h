#pragma once

#include "backend/layout.h"
#include "tensor/tensor.h"

#include <span>

namespace hp {

/// Copies a float32 tensor from one layout to another, by all threads of the team. `source` may equal `target` where
/// the order of elements is the same (nothing is done); else they must not overlap.
/// @param from,to descs of one shape, in any two layouts.
void CopyLayout(const TensorDesc& from, const float* source, const TensorDesc& to, float* target);

/// target = sources[0] + sources[1] + ..., added in that order for each element; overwrites `target`.
/// @param sources at least one; dense NCHW, of the shape of `to`.
void SumFromDense(std::span<const float* const> sources, const TensorDesc& to, float* target);

}  // namespace hp
