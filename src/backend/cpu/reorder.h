#pragma once

#include "backend/layout.h"
#include "base/bfloat16.h"
#include "tensor/tensor.h"

#include <span>

namespace hp {

/// Copies a tensor from one layout and element type to another, by all threads of the team. `source` may equal `target`
/// where the order of elements and their type are the same (nothing is done); else they must not overlap.
/// @param from,to descs of one shape, in any two layouts, of float32 or bfloat16.
void CopyLayout(const TensorDesc& from, const void* source, const TensorDesc& to, void* target);

/// target = sources[0] + sources[1] + ..., added in that order for each element; overwrites `target`.
/// @param sources at least one; dense NCHW, of the shape of `to`. @param to float32.
/// @tparam T float or BFloat16.
template <typename T>
void SumFromDense(std::span<const T* const> sources, const TensorDesc& to, float* target);
extern template void SumFromDense(std::span<const float* const>, const TensorDesc&, float*);
extern template void SumFromDense(std::span<const BFloat16* const>, const TensorDesc&, float*);

/// All elements 0, in any type.
void Zero(const TensorDesc& desc, void* target);

/// How ops that are written for any device copy here.
struct HostCopies {
  void CopyLayout(const TensorDesc& from_desc, const void* from, const TensorDesc& to_desc, void* to) const {
    hp::CopyLayout(from_desc, from, to_desc, to);
  }
};

}  // namespace hp
