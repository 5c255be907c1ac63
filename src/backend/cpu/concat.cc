// Concat and Scatter, which undoes it.
#include "backend/concat_op.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"
#include "backend/scatter_op.h"

#include <algorithm>
#include <cstring>

namespace hp {
namespace {

/// The copies of both, by the team of threads.
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
  void Zero(const TensorDesc& desc, void* to) const { std::fill_n(static_cast<float*>(to), desc.count(), 0.0f); }
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::Concat(int axis, const Descs& in) {
  return Backend::OpPtr(std::make_unique<ConcatOp<Copies>>(Copies(), ConcatPlan(axis, in, true)));
}

StatusOr<Backend::OpPtr> CpuBackend::Scatter(const std::vector<Range>& channels, const Descs& in) {
  return Backend::OpPtr(std::make_unique<ScatterOp<Copies>>(Copies(), channels, in[0]));
}

}  // namespace hp
