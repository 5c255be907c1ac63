#include "backend/cuda/cuda_backend.h"

namespace hp {

StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(Gpu* gpu, std::unique_ptr<GpuLibrary> library) {
  HP_ASSIGN_OR_RETURN(Buffer partial_sums, gpu->Allocate(cuda::PartialSums() * sizeof(double)));
  return std::unique_ptr<Backend>(
      std::make_unique<cuda::CudaBackend>(gpu, std::move(library), std::move(partial_sums)));
}

}  // namespace hp
