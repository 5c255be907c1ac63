#pragma once

#include "hp/status.h"

#include <cuda_runtime.h>

namespace hp {

/// What CUDA's runtime says of `call`, which is then no longer the thread's last error: that is for launches of
/// kernels. kInternal: whatever fails once the GPU was opened is no user's mistake.
inline Status CudaStatus(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return OkStatus();
  cudaGetLastError();
  return InternalError("%s: %s (%s)", call, cudaGetErrorString(error), cudaGetErrorName(error));
}

}  // namespace hp
