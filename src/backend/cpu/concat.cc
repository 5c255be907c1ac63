#include "backend/concat_plan.h"
#include "backend/cpu/ops.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"

namespace hp {
namespace {

/// Inputs side by side along one axis; an input in another layout than the output's is reordered through scratch.
class ConcatOp final : public Op {
 public:
  ConcatOp(int axis, const Backend::Descs& in) : plan_(axis, in, true) {
    outputs_ = {plan_.output};
    scratch_bytes_ = plan_.scratch_bytes;
  }

  void Forward(const OpArgs& args) override {
    for (size_t i = 0; i < plan_.parts.size(); ++i) {
      const ConcatPlan::Part& part = plan_.parts[i];
      const float* from = args.in[i].data;
      if (part.reordered) {
        float* scratch = reinterpret_cast<float*>(args.scratch);
        CopyLayout(part.desc, from, part.as_output, scratch);
        from = scratch;
      }
      CopyPieces(part.length, from, part.length, args.out[0].data + part.offset, plan_.stride);
    }
  }
  void BackwardInput(const OpArgs& args) override {
    for (size_t i = 0; i < plan_.parts.size(); ++i) {
      const ConcatPlan::Part& part = plan_.parts[i];
      float* to = args.d_in[i].data;
      if (to == nullptr) continue;
      float* target = part.reordered ? reinterpret_cast<float*>(args.scratch) : to;
      CopyPieces(part.length, args.d_out[0].data + part.offset, plan_.stride, target, part.length);
      if (part.reordered) CopyLayout(part.as_output, target, part.desc, to);
    }
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  void CopyPieces(int64_t length, const float* from, int64_t from_stride, float* to, int64_t to_stride) const {
    ForItems(plan_.outer, plan_.outer * length,
             [=](int64_t i) { std::copy_n(from + i * from_stride, length, to + i * to_stride); });
  }

  const ConcatPlan plan_;
};

}  // namespace

StatusOr<Backend::OpPtr> MakeConcat(int axis, const Backend::Descs& in) {
  return Backend::OpPtr(std::make_unique<ConcatOp>(axis, in));
}

}  // namespace hp
