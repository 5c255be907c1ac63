#include "backend/concat_op.h"
#include "backend/cpu/ops.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"

namespace hp {
namespace {

/// ConcatOp's copies, by the team of threads.
struct Copies {
  void CopyLayout(const TensorDesc& from_desc, const float* from, const TensorDesc& to_desc, float* to) const {
    hp::CopyLayout(from_desc, from, to_desc, to);
  }
  void CopyPieces(int64_t count, int64_t length, const float* from, int64_t from_stride, float* to,
                  int64_t to_stride) const {
    ForItems(count, count * length,
             [=](int64_t i) { std::copy_n(from + i * from_stride, length, to + i * to_stride); });
  }
};

}  // namespace

StatusOr<Backend::OpPtr> MakeConcat(int axis, const Backend::Descs& in) {
  return Backend::OpPtr(std::make_unique<ConcatOp<Copies>>(Copies(), ConcatPlan(axis, in, true)));
}

}  // namespace hp
