#pragma once

#include "backend/cuda/library.h"
#include "base/element_type.h"

#include <cstdint>

namespace hp {

/// Elements of a convolution's tensors, of all its groups.
struct ConvolutionCounts {
  int64_t x = 0, weights = 0, bias = 0, y = 0;
};

/// Whether NaNs reach y through Forward, with its ReLU: tried, on memory of its own, with weights that are all
/// NaN. cuDNN's attribute for it has no effect (9.19: plans with and without are the same), and the engines that it
/// prefers have no note that they keep NaNs (CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP): some of them may turn one into 0,
/// and a job whose numbers are lost would go on. Looks at y's beginning, middle and end. Waits for the GPU.
/// @return kResourceExhausted: no memory for it; kInternal: the device failed.
StatusOr<bool> HandsNansOn(Gpu* gpu, GpuConvolution* convolution, const ConvolutionCounts& counts, ElementType element);

}  // namespace hp
