#include "backend/concat_op.h"
#include "backend/cuda/ops.h"
#include "backend/cuda/pack.h"
#include "backend/cuda/rows.h"

namespace hp::cuda {
namespace {

template <int W>
struct CopyPiece {
  const float* from;
  int64_t from_stride;
  float* to;
  int64_t to_stride;
  HP_HOST_DEVICE void operator()(int64_t piece, uint32_t i) const {
    StorePack(to + piece * to_stride + int64_t{W} * i, LoadPack<W>(from + piece * from_stride + int64_t{W} * i));
  }
};

/// ConcatOp's copies, in the compute stream.
struct Copies {
  GpuContext context;

  void CopyLayout(const TensorDesc& from_desc, const float* from, const TensorDesc& to_desc, float* to) const {
    cuda::CopyLayout(context.stream(), from_desc, from, to_desc, to);
  }
  void CopyPieces(int64_t count, int64_t length, const float* from, int64_t from_stride, float* to,
                  int64_t to_stride) const {
    const bool packs = length % 4 == 0 && from_stride % 4 == 0 && to_stride % 4 == 0 && Packable({from, to});
    if (packs) {
      ForEachInRows(context.stream(), count, length / 4, CopyPiece<4>{from, from_stride, to, to_stride});
    } else {
      ForEachInRows(context.stream(), count, length, CopyPiece<1>{from, from_stride, to, to_stride});
    }
  }
};

}  // namespace

StatusOr<Backend::OpPtr> MakeConcat(const GpuContext& context, int axis, const Backend::Descs& in) {
  return Backend::OpPtr(std::make_unique<ConcatOp<Copies>>(Copies{context}, ConcatPlan(axis, in, false)));
}

}  // namespace hp::cuda
