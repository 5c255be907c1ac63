#pragma once

#include "hp/status.h"

#include <cuda_runtime.h>

namespace hp {

/// The result of runtime function `call` as a Status: kInternal with CUDA's message and name of the error, since
/// whatever fails once a GPU is open is no user's mistake. Clears the thread's last error, which is kept for kernel
/// launches.
inline Status CudaStatus(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return OkStatus();
  cudaGetLastError();
  return InternalError("%s: %s (%s)", call, cudaGetErrorString(error), cudaGetErrorName(error));
}

}  // namespace hp
