// Concat; Scatter and Slice, which undo it; Crop and Tile.
#include "backend/box_ops.h"
#include "backend/concat_op.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/element.h"
#include "backend/cuda/pack.h"
#include "backend/cuda/reorder.h"
#include "backend/cuda/rows.h"
#include "backend/scatter_op.h"
#include "backend/slice_op.h"
#include "backend/strided_copy.h"

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

/// Of elements that are only moved: T is any type of their size.
template <typename T>
struct CopyRun {
  StridedCopy copy;
  const T* from;
  T* to;
  HP_HOST_DEVICE void operator()(int64_t run, uint32_t i) const {
    const StridedCopy::Place at = copy.PlaceOf(run);
    to[at.to + i] = from[at.from + i];
  }
};

/// Reads element i of `parts` runs, writes their sum.
template <typename T>
struct SumOfRuns {
  int64_t parts, length;
  const T* from;
  T* to;
  HP_HOST_DEVICE void operator()(int64_t row, uint32_t i) const {
    float sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += ToFloat(from[(row * parts + part) * length + i]);
    Put(sum, to + row * length + i);
  }
};

/// The copies of all, in the compute stream.
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
  void CopyRuns(ElementType element, const StridedCopy& copy, const std::byte* from, std::byte* to) const {
    const auto run = [&](auto tag) {
      using T = typename decltype(tag)::Type;
      ForEachInRows(context.stream(), copy.runs(), copy.length,
                    CopyRun<T>{copy, reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to)});
    };
    if (BytesOf(element) == sizeof(uint16_t)) {
      run(TypeTag<uint16_t>());
    } else {
      run(TypeTag<uint32_t>());
    }
  }
  void SumRuns(ElementType element, int64_t count, int64_t parts, int64_t length, const std::byte* from,
               std::byte* to) const {
    WithElementType(element, [&](auto type) {
      using T = typename decltype(type)::Type;
      ForEachInRows(context.stream(), count, length,
                    SumOfRuns<T>{parts, length, reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to)});
    });
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

StatusOr<Backend::OpPtr> CudaBackend::Slice(int axis, const std::vector<int64_t>& sizes, const Descs& in) {
  return Backend::OpPtr(std::make_unique<SliceOp<Copies>>(Copies{context_}, axis, sizes, in[0], false));
}

StatusOr<Backend::OpPtr> CudaBackend::Crop(const std::vector<int64_t>& offsets, const Shape& out, const Descs& in) {
  return Backend::OpPtr(std::make_unique<CropOp<Copies>>(Copies{context_}, offsets, out, in));
}

StatusOr<Backend::OpPtr> CudaBackend::Tile(int axis, int64_t tiles, const Descs& in) {
  return Backend::OpPtr(std::make_unique<TileOp<Copies>>(Copies{context_}, axis, tiles, in[0]));
}

}  // namespace hp::cuda
