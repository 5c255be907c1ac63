#pragma once

#include "backend/backend.h"
#include "backend/cuda/library.h"

#include <memory>

namespace hp {

/// Ops on `gpu`, which must outlive the backend and its ops. @return kResourceExhausted: no memory for partial sums.
StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(Gpu* gpu, std::unique_ptr<GpuLibrary> library);

}  // namespace hp
