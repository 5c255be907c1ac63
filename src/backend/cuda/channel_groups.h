#pragma once

#include "backend/cuda/gpu.h"
#include "tensor/tensor.h"

#include <cstdint>

namespace hp::cuda {

// Tensors whose channels lie in groups, each NHWC, of all images: [groups][N, H, W, C / groups]. So the library reads
// and writes the groups of a convolution where it computes them one by one (GpuConvolution::groups). Pixels of a group
// are multiples of 16 bytes.

/// Copies a tensor of either layout, float32 or of the type `element`, into groups of that type.
void CopyToGroups(const GpuStream& stream, const TensorDesc& from_desc, const void* from, ElementType element,
                  int64_t groups, void* to);

/// The reverse: from groups of the type `element` into a tensor of either layout, float32 or of that type.
void CopyFromGroups(const GpuStream& stream, ElementType element, int64_t groups, const void* from,
                    const TensorDesc& to_desc, void* to);

}  // namespace hp::cuda
