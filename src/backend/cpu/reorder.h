#pragma once

#include "backend/layout.h"
#include "tensor/tensor.h"

#include <span>

namespace hp {

/// to = from, all threads of the team. Equal pointers are allowed where the order is the same (nothing is done).
/// @param from,to descs of one shape, in any two layouts.
void CopyLayout(const TensorDesc& from, const float* source, const TensorDesc& to, float* target);

/// target = sources[0] + sources[1] + ..., added in that order for each element.
/// @param sources at least one; dense NCHW, of the shape of `to`.
void SumFromDense(std::span<const float* const> sources, const TensorDesc& to, float* target);

}  // namespace hp
