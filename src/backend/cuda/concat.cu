// Concat and Scatter, which undoes it.
#include "backend/concat_op.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/pack.h"
#include "backend/cuda/reorder.h"
#include "backend/cuda/rows.h"
#include "backend/scatter_op.h"

namespace hp::cuda {
namespace {

/// Of elements that are only moved: T is any type of their size.
template <int W, typename T>
struct CopyPiece {
  const T* from;
  int64_t from_stride;
  T* to;
  int64_t to_stride;
  HP_HOST_DEVICE void operator()(int64_t piece, uint32_t i) const {
    StorePack(to + piece * to_stride + int64_t{W} * i, LoadPack<W>(from + piece * from_stride + int64_t{W} * i));
  }
};

/// The copies of both, in the compute stream.
struct Copies {
  GpuContext context;

  void CopyLayout(const TensorDesc& from_desc, const void* from, const TensorDesc& to_desc, void* to) const {
    cuda::CopyLayout(context.stream(), from_desc, from, to_desc, to);
  }
  void CopyPieces(ElementType element, int64_t count, int64_t length, const std::byte* from, int64_t from_stride,
                  std::byte* to, int64_t to_stride) const {
    if (BytesOf(element) == sizeof(uint16_t)) {
      CopyPieces<uint16_t>(count, length, from, from_stride, to, to_stride);
    } else {
      CopyPieces<uint32_t>(count, length, from, from_stride, to, to_stride);
    }
  }
  void Zero(const TensorDesc& desc, void* to) const { cuda::Sum(context.stream(), desc, {}, to); }

 private:
  template <typename T>
  void CopyPieces(int64_t count, int64_t length, const std::byte* from_bytes, int64_t from_stride, std::byte* to_bytes,
                  int64_t to_stride) const {
    constexpr int W = kPackWidth<T>;
    const T* from = reinterpret_cast<const T*>(from_bytes);
    T* to = reinterpret_cast<T*>(to_bytes);
    const bool packs = length % W == 0 && from_stride % W == 0 && to_stride % W == 0 && Packable({from, to});
    if (packs) {
      ForEachInRows(context.stream(), count, length / W, CopyPiece<W, T>{from, from_stride, to, to_stride});
    } else {
      ForEachInRows(context.stream(), count, length, CopyPiece<1, T>{from, from_stride, to, to_stride});
    }
  }
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Concat(int axis, const Descs& in) {
  return Backend::OpPtr(std::make_unique<ConcatOp<Copies>>(Copies{context_}, ConcatPlan(axis, in, false)));
}

StatusOr<Backend::OpPtr> CudaBackend::Scatter(const std::vector<Range>& channels, const Descs& in) {
  return Backend::OpPtr(std::make_unique<ScatterOp<Copies>>(Copies{context_}, channels, in[0]));
}

}  // namespace hp::cuda
