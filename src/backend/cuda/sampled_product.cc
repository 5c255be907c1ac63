#include "backend/cuda/cuda_backend.h"

namespace hp::cuda {

// Which rows a sample has is known to the host alone.
StatusOr<Backend::OpPtr> CudaBackend::SampledProduct(const SampledProductDesc&, const Descs&) {
  return InvalidArgument(
      "a sample_rate below 1 is computed on CPUs alone; expected device \"cpu\" for its nodes, or 1");
}

}  // namespace hp::cuda
