#include "backend/cuda/cuda_backend.h"

namespace hp::cuda {

// Which rows a sample has is known to the host alone.
namespace {

Status OnCpusAlone() {
  return InvalidArgument(
      "a sample_rate below 1 is computed on CPUs alone; expected device \"cpu\" for its nodes, or 1");
}

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::SampledProduct(const SampledProductDesc&, const Descs&) { return OnCpusAlone(); }

StatusOr<Backend::OpPtr> CudaBackend::JoinedStatistics(const ClassSlice&, const Descs&) { return OnCpusAlone(); }

StatusOr<Backend::OpPtr> CudaBackend::JoinedTopScores(const AccuracyDesc&, const ClassSlice&, const Descs&) {
  return OnCpusAlone();
}

}  // namespace hp::cuda
