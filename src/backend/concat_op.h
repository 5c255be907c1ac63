#pragma once

#include "backend/concat_plan.h"
#include "backend/op.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace hp {

/// Backend::Concat for any device: copies each input to its place in the output and, backward, each place to its
/// input's gradient. An input in another layout or element type than the output's is converted in scratch, one input at
/// a time.
/// @tparam Copies how a device copies; strides and lengths in elements of type `element`:
///   void CopyLayout(from_desc, from, to_desc, to) const;
///   void CopyPieces(element, count, length, from, from_stride, to, to_stride) const;   // `count` runs of `length`
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
      const void* from = args.in[i].data;
      if (part.reordered) {
        copies_.CopyLayout(part.desc, from, part.as_output, args.scratch);
        from = args.scratch;
      }
      copies_.CopyPieces(plan_.output.element, plan_.outer, part.length, static_cast<const std::byte*>(from),
                         part.length, InOutput(args.out[0], part), plan_.stride);
    }
  }
  void BackwardInput(const OpArgs& args) override {
    for (size_t i = 0; i < plan_.parts.size(); ++i) {
      const ConcatPlan::Part& part = plan_.parts[i];
      void* to = args.d_in[i].data;
      if (to == nullptr) continue;
      void* target = part.reordered ? args.scratch : to;
      copies_.CopyPieces(plan_.output.element, plan_.outer, part.length, InOutput(args.d_out[0], part), plan_.stride,
                         static_cast<std::byte*>(target), part.length);
      if (part.reordered) copies_.CopyLayout(part.as_output, target, part.desc, to);
    }
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  /// The address of a part's first piece in the output.
  std::byte* InOutput(const Tensor& whole, const ConcatPlan::Part& part) const {
    return static_cast<std::byte*>(whole.data) + part.offset * BytesOf(plan_.output.element);
  }

  const Copies copies_;
  const ConcatPlan plan_;
};

}  // namespace hp
