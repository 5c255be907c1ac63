#include "backend/concat_plan.h"
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

/// Inputs side by side along one axis; an input in another layout than the output's is reordered through scratch.
class ConcatOp final : public Op {
 public:
  ConcatOp(const GpuContext& context, int axis, const Backend::Descs& in) : context_(context), plan_(axis, in, false) {
    outputs_ = {plan_.output};
    scratch_bytes_ = plan_.scratch_bytes;
  }

  void Forward(const OpArgs& args) override {
    for (size_t i = 0; i < plan_.parts.size(); ++i) {
      const ConcatPlan::Part& part = plan_.parts[i];
      const float* from = args.in[i].data;
      if (part.reordered) {
        float* scratch = reinterpret_cast<float*>(args.scratch);
        CopyLayout(context_.stream(), part.desc, from, part.as_output, scratch);
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
      if (part.reordered) CopyLayout(context_.stream(), part.as_output, target, part.desc, to);
    }
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  void CopyPieces(int64_t length, const float* from, int64_t from_stride, float* to, int64_t to_stride) const {
    const bool packs = length % 4 == 0 && from_stride % 4 == 0 && to_stride % 4 == 0 && Packable({from, to});
    if (packs) {
      ForEachInRows(context_.stream(), plan_.outer, length / 4, CopyPiece<4>{from, from_stride, to, to_stride});
    } else {
      ForEachInRows(context_.stream(), plan_.outer, length, CopyPiece<1>{from, from_stride, to, to_stride});
    }
  }

  const GpuContext context_;
  const ConcatPlan plan_;
};

}  // namespace

StatusOr<Backend::OpPtr> MakeConcat(const GpuContext& context, int axis, const Backend::Descs& in) {
  return Backend::OpPtr(std::make_unique<ConcatOp>(context, axis, in));
}

}  // namespace hp::cuda
