#pragma once

#include "backend/concat_plan.h"
#include "backend/op.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace hp {

/// Inputs side by side along one axis; an input in another layout than the output's is reordered through scratch.
/// @tparam Copies how a device copies:
///   void CopyLayout(from_desc, from, to_desc, to) const;
///   void CopyPieces(count, length, from, from_stride, to, to_stride) const;   // `count` runs of `length` floats
template <typename Copies>
class ConcatOp final : public Op {
 public:
  ConcatOp(Copies copies, ConcatPlan plan) : copies_(std::move(copies)), plan_(std::move(plan)) {
    outputs_ = {plan_.output};
    scratch_bytes_ = plan_.scratch_bytes;
  }

  void Forward(const OpArgs& args) override {
    for (size_t i = 0; i < plan_.parts.size(); ++i) {
      const ConcatPlan::Part& part = plan_.parts[i];
      const float* from = args.in[i].data;
      if (part.reordered) {
        float* scratch = reinterpret_cast<float*>(args.scratch);
        copies_.CopyLayout(part.desc, from, part.as_output, scratch);
        from = scratch;
      }
      copies_.CopyPieces(plan_.outer, part.length, from, part.length, args.out[0].data + part.offset, plan_.stride);
    }
  }
  void BackwardInput(const OpArgs& args) override {
    for (size_t i = 0; i < plan_.parts.size(); ++i) {
      const ConcatPlan::Part& part = plan_.parts[i];
      float* to = args.d_in[i].data;
      if (to == nullptr) continue;
      float* target = part.reordered ? reinterpret_cast<float*>(args.scratch) : to;
      copies_.CopyPieces(plan_.outer, part.length, args.d_out[0].data + part.offset, plan_.stride, target, part.length);
      if (part.reordered) copies_.CopyLayout(part.as_output, target, part.desc, to);
    }
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  const Copies copies_;
  const ConcatPlan plan_;
};

}  // namespace hp
