#include "backend/cuda/float32_inputs.h"

#include "backend/float32_inputs.h"

namespace hp::cuda {
namespace {

struct Copies {
  GpuContext context;

  void CopyLayout(const TensorDesc& from_desc, const void* from, const TensorDesc& to_desc, void* to) const {
    cuda::CopyLayout(context.stream(), from_desc, from, to_desc, to);
  }
};

}  // namespace

StatusOr<Backend::OpPtr> OnFloat32(const GpuContext& context, const Backend::Descs& in,
                                   const std::function<StatusOr<Backend::OpPtr>(const Backend::Descs& in)>& make,
                                   bool dense) {
  return MakeOnFloat32(Copies{context}, in, make, dense);
}

}  // namespace hp::cuda
