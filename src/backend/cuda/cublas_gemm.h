#pragma once

#include "backend/cuda/library.h"

#include <cublasLt.h>

#include <memory>
#include <string>

namespace hp {

/// OK, or kFailedPrecondition with cuBLAS's words. @param what what was asked of it.
Status CublasStatus(cublasStatus_t status, const std::string& what);

/// A product on `gpu`'s compute stream. @param handle outlives it. @return kFailedPrecondition: cuBLASLt has no way.
StatusOr<std::unique_ptr<GpuGemm>> MakeCublasGemm(Gpu* gpu, cublasLtHandle_t handle, GpuMath math,
                                                  const GpuGemmDesc& desc);

}  // namespace hp
