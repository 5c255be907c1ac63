#pragma once

#include "backend/cuda/ops.h"

#include <functional>

namespace hp::cuda {

/// make(in) for an op without parameters that knows float32 alone; where inputs are of 16 bits, one that works on
/// copies of them, made anew for the backward pass: for what is small (losses) or rare (mixed types).
StatusOr<Backend::OpPtr> OnFloat32(const GpuContext& context, const Backend::Descs& in,
                                   const std::function<StatusOr<Backend::OpPtr>(const Backend::Descs& in)>& make);

}  // namespace hp::cuda
