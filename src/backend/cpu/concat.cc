// Concat; Scatter and Slice, which undo it; Crop and Tile.
#include "backend/box_ops.h"
#include "backend/concat_op.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"
#include "backend/scatter_op.h"
#include "backend/slice_op.h"
#include "backend/strided_copy.h"

#include <algorithm>
#include <cstring>

namespace hp {
namespace {

/// The copies of all, by the team of threads.
struct Copies {
  void CopyLayout(const TensorDesc& from_desc, const void* from, const TensorDesc& to_desc, void* to) const {
    hp::CopyLayout(from_desc, static_cast<const float*>(from), to_desc, static_cast<float*>(to));
  }
  void CopyPieces(ElementType element, int64_t count, int64_t length, const std::byte* from, int64_t from_stride,
                  std::byte* to, int64_t to_stride) const {
    const int64_t size = static_cast<int64_t>(BytesOf(element));
    ForItems(count, count * length,
             [=](int64_t i) { std::memcpy(to + i * to_stride * size, from + i * from_stride * size, length * size); });
  }
  void CopyRuns(ElementType element, const StridedCopy& copy, const std::byte* from, std::byte* to) const {
    const int64_t size = static_cast<int64_t>(BytesOf(element)), runs = copy.runs();
    ForItems(runs, runs * copy.length, [=](int64_t run) {
      const StridedCopy::Place at = copy.PlaceOf(run);
      std::memcpy(to + at.to * size, from + at.from * size, copy.length * size);
    });
  }
  void SumRuns(ElementType, int64_t count, int64_t parts, int64_t length, const std::byte* from_bytes,
               std::byte* to_bytes) const {
    const float* const from = reinterpret_cast<const float*>(from_bytes);
    float* const to = reinterpret_cast<float*>(to_bytes);
    ForItems(count, count * parts * length, [=](int64_t i) {
      float* const own = to + i * length;
      std::copy_n(from + i * parts * length, length, own);
      for (int64_t part = 1; part < parts; ++part) {
        const float* const other = from + (i * parts + part) * length;
        for (int64_t k = 0; k < length; ++k) own[k] += other[k];
      }
    });
  }
  void Zero(const TensorDesc& desc, void* to) const { std::fill_n(static_cast<float*>(to), desc.count(), 0.0f); }
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Concat(int axis, const Descs& in) {
  return Backend::OpPtr(std::make_unique<ConcatOp<Copies>>(Copies(), ConcatPlan(axis, in, true)));
}

StatusOr<Backend::OpPtr> CpuBackend::Scatter(const std::vector<Range>& channels, const Descs& in) {
  return Backend::OpPtr(std::make_unique<ScatterOp<Copies>>(Copies(), channels, in[0]));
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
