#pragma once

#include "backend/cuda/ops.h"

#include <functional>

namespace hp::cuda {

/// Makes an op without parameters that supports only float32, for inputs of any element type: make(in) itself if all
/// are float32, else an op that converts 16-bit inputs in scratch before each pass, and their gradients after. The
/// conversions cost a pass over memory each, so it is for small tensors (losses) and rare cases (mixed types).
/// @param dense the op supports only the dense layout, too.
/// @return errors of `make`.
StatusOr<Backend::OpPtr> OnFloat32(const GpuContext& context, const Backend::Descs& in,
                                   const std::function<StatusOr<Backend::OpPtr>(const Backend::Descs& in)>& make,
                                   bool dense = false);

}  // namespace hp::cuda
