#pragma once

#include "backend/cuda/gpu.h"
#include "tensor/tensor.h"

namespace hp::cuda {

// Tensors whose channels are filled up with zeros to 16 bytes, as the engines for tensor cores read them. In the
// library's form a pixel is one access, and padded_desc is NHWC of as many channels as 16 bytes hold.

/// Copies a tensor of either layout, float32 or of the type of `padded_desc`, and writes the zeros behind its channels.
void PadChannels(const GpuStream& stream, const TensorDesc& from_desc, const void* from, const TensorDesc& padded_desc,
                 void* padded);

/// The reverse: copies the channels that `to_desc` has.
void DropPadding(const GpuStream& stream, const TensorDesc& padded_desc, const void* padded, const TensorDesc& to_desc,
                 void* to);

}  // namespace hp::cuda
