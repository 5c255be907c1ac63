#pragma once

#include "hp/status.h"

#include <cuda_runtime.h>

namespace hp {

/// What CUDA's runtime says of `call`. kInternal: whatever fails once the GPU was opened is no user's mistake.
inline Status CudaStatus(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return OkStatus();
  return InternalError("%s: %s (%s)", call, cudaGetErrorString(error), cudaGetErrorName(error));
}

}  // namespace hp
