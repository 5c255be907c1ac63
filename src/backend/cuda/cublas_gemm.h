#pragma once

#include "backend/cuda/library.h"

#include <cublasLt.h>

#include <memory>
#include <string>

namespace hp {

/// Ok, or kFailedPrecondition with cuBLAS's name of the error. @param what the operation, for the message.
Status CublasStatus(cublasStatus_t status, const std::string& what);

/// A product on `gpu`'s compute stream, by cuBLASLt. `gpu` and `handle` must outlive it.
/// @return kFailedPrecondition: cuBLASLt has no algorithm for it.
StatusOr<std::unique_ptr<GpuGemm>> MakeCublasGemm(Gpu* gpu, cublasLtHandle_t handle, GpuMath math,
                                                  const GpuGemmDesc& desc);

}  // namespace hp
