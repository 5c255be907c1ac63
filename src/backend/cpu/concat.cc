// Concat; Scatter and Slice, which undo it; Crop and Tile.
#include "backend/box_ops.h"
#include "backend/concat_op.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/element.h"
#include "backend/cpu/float32_inputs.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"
#include "backend/scatter_op.h"
#include "backend/slice_op.h"
#include "backend/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace hp {
namespace {

/// The copies of all, by the team of threads.
struct Copies : HostCopies {
  void CopyPieces(ElementType element, int64_t count, std::span<const PieceCopy> copies) const {
    const int64_t size = static_cast<int64_t>(BytesOf(element));
    for (const PieceCopy& copy : copies) {
      ForItems(count, count * copy.length, [&](int64_t i) {
        std::memcpy(copy.to + i * copy.to_stride * size, copy.from + i * copy.from_stride * size, copy.length * size);
      });
    }
  }
  void CopyRuns(ElementType element, const StridedCopy& copy, const std::byte* from, std::byte* to) const {
    const int64_t size = static_cast<int64_t>(BytesOf(element)), runs = copy.runs();
    ForItems(runs, runs * copy.length, [=](int64_t run) {
      const StridedCopy::Place at = copy.PlaceOf(run);
      std::memcpy(to + at.to * size, from + at.from * size, copy.length * size);
    });
  }
  void SumRuns(ElementType element, int64_t count, int64_t parts, int64_t length, const std::byte* from,
               std::byte* to) const {
    OfElement(element, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      SumTypedRuns(count, parts, length, reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to));
    });
  }
  template <typename T>
  static void SumTypedRuns(int64_t count, int64_t parts, int64_t length, const T* from, T* to) {
    ForItems(count, count * parts * length, [=](int64_t i) {
      ForRuns<T>(i * length, (i + 1) * length, to, [&](int64_t first, int64_t run, float* sums) {
        const T* const own = from + i * parts * length + first - i * length;
        for (int64_t k = 0; k < run; ++k) sums[k] = own[k];
        for (int64_t part = 1; part < parts; ++part) {
          const T* const other = own + part * length;
          for (int64_t k = 0; k < run; ++k) sums[k] += other[k];
        }
      });
    });
  }
  void Zero(const TensorDesc& desc, void* to) const { hp::Zero(desc, to); }
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Concat(int axis, const Descs& in) {
  return Backend::OpPtr(std::make_unique<ConcatOp<Copies>>(Copies(), ConcatPlan(axis, in, true)));
}

StatusOr<Backend::OpPtr> CpuBackend::Scatter(const std::vector<Range>& channels, const Descs& in) {
  return OnFloat32(in, [&](const Descs& floats) -> StatusOr<OpPtr> {
    return OpPtr(std::make_unique<ScatterOp<Copies>>(Copies(), channels, floats[0]));
  });
}

StatusOr<Backend::OpPtr> CpuBackend::Slice(int axis, const std::vector<int64_t>& sizes, const Descs& in) {
  return Backend::OpPtr(std::make_unique<SliceOp<Copies>>(Copies(), axis, sizes, in[0], true));
}

StatusOr<Backend::OpPtr> CpuBackend::Crop(const std::vector<int64_t>& offsets, const Shape& out, const Descs& in) {
  return Backend::OpPtr(std::make_unique<CropOp<Copies>>(Copies(), offsets, out, in));
}

StatusOr<Backend::OpPtr> CpuBackend::Tile(int axis, int64_t tiles, const Descs& in) {
  return Backend::OpPtr(std::make_unique<TileOp<Copies>>(Copies(), axis, tiles, in[0]));
}

}  // namespace hp
