#pragma once

#include "backend/cuda/cudnn_plan.h"
#include "backend/cuda/gpu.h"

namespace hp {

/// Milliseconds that `plan` takes on `gpu`, in memory that is allocated for it and freed again. Blocks. For
/// CudnnTarget::time. @param handle bound to the GPU's compute stream. Errors as EngineChooser::Timer's, and kInternal:
/// the GPU failed.
StatusOr<double> TimeCudnnPlan(Gpu* gpu, cudnnHandle_t handle, const CudnnPlan& plan);

}  // namespace hp
