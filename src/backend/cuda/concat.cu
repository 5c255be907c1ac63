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

#include <algorithm>
#include <span>

namespace hp::cuda {
namespace {

constexpr int kMostTogether = 8;  // copies by one kernel: an inception of GoogLeNet has four

/// Element i of a piece is of the copies' elements side by side, in packs of W. Of elements that are only moved: T is
/// any type of their size.
template <int W, typename T>
struct CopyPiece {
  int count = 0;
  uint32_t end[kMostTogether] = {};  ///< of each copy, in packs
  const T* from[kMostTogether] = {};
  T* to[kMostTogether] = {};
  int64_t from_stride[kMostTogether] = {}, to_stride[kMostTogether] = {};
  HP_HOST_DEVICE void operator()(int64_t piece, uint32_t i) const {
    uint32_t begin = 0;
    // All of them, so that the compiler knows the indices and the arrays stay in the kernel's arguments.
    for (int copy = 0; copy < kMostTogether; ++copy) {
      if (copy < count && i >= begin && i < end[copy]) {
        const int64_t at = int64_t{W} * (i - begin);
        StorePack(to[copy] + piece * to_stride[copy] + at, LoadPack<W>(from[copy] + piece * from_stride[copy] + at));
      }
      begin = end[copy];
    }
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
  void CopyPieces(ElementType element, int64_t count, std::span<const PieceCopy> copies) const {
    if (BytesOf(element) == sizeof(uint16_t)) {
      CopyPieces<uint16_t>(count, copies);
    } else {
      CopyPieces<uint32_t>(count, copies);
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
  void CopyPieces(int64_t count, std::span<const PieceCopy> copies) const {
    constexpr int W = kPackWidth<T>;
    for (; !copies.empty(); copies = copies.subspan(std::min<size_t>(copies.size(), kMostTogether))) {
      const auto together = copies.first(std::min<size_t>(copies.size(), kMostTogether));
      const bool packs = std::all_of(together.begin(), together.end(), [](const PieceCopy& copy) {
        return copy.length % W == 0 && copy.from_stride % W == 0 && copy.to_stride % W == 0 &&
               Packable({copy.from, copy.to});
      });
      packs ? CopyTogether<W, T>(count, together) : CopyTogether<1, T>(count, together);
    }
  }
  template <int W, typename T>
  void CopyTogether(int64_t count, std::span<const PieceCopy> copies) const {
    CopyPiece<W, T> kernel;
    int64_t width = 0;
    for (const PieceCopy& copy : copies) {
      const int i = kernel.count++;
      width += copy.length / W;
      kernel.end[i] = static_cast<uint32_t>(width);
      kernel.from[i] = reinterpret_cast<const T*>(copy.from), kernel.from_stride[i] = copy.from_stride;
      kernel.to[i] = reinterpret_cast<T*>(copy.to), kernel.to_stride[i] = copy.to_stride;
    }
    ForEachInRows(context.stream(), count, width, kernel);
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
