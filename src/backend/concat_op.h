#pragma once

#include "backend/concat_plan.h"
#include "backend/op.h"
#include "backend/strided_copy.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace hp {

/// Backend::Concat for any device: copies each input to its place in the output and, backward, each place to its
/// input's gradient, all together but for inputs in another layout or element type than the output's, which are
/// converted in scratch, one at a time.
/// @tparam Copies how a device copies:
///   void CopyLayout(from_desc, from, to_desc, to) const;
///   void CopyPieces(element, count, std::span<const PieceCopy>) const;   // of `count` pieces, of elements of a type
template <typename Copies>
class ConcatOp final : public Op {
 public:
  ConcatOp(Copies copies, ConcatPlan plan) : copies_(std::move(copies)), plan_(std::move(plan)) {
    outputs_ = {plan_.output};
    scratch_bytes_ = plan_.scratch_bytes;
  }

  void Forward(const OpArgs& args) override {
    std::vector<PieceCopy> together;
    for (size_t i = 0; i < plan_.parts.size(); ++i) {
      const ConcatPlan::Part& part = plan_.parts[i];
      const void* const from = part.reordered ? args.scratch : args.in[i].data;
      const PieceCopy copy = {part.length, static_cast<const std::byte*>(from), part.length,
                              InOutput(args.out[0], part), plan_.stride};
      if (!part.reordered) {
        together.push_back(copy);
        continue;
      }
      copies_.CopyLayout(part.desc, args.in[i].data, part.as_output, args.scratch);
      copies_.CopyPieces(plan_.output.element, plan_.outer, std::span(&copy, 1));
    }
    copies_.CopyPieces(plan_.output.element, plan_.outer, together);
  }
  void BackwardInput(const OpArgs& args) override {
    std::vector<PieceCopy> together;
    for (size_t i = 0; i < plan_.parts.size(); ++i) {
      const ConcatPlan::Part& part = plan_.parts[i];
      void* const to = args.d_in[i].data;
      if (to == nullptr) continue;
      void* const target = part.reordered ? args.scratch : to;
      const PieceCopy copy = {part.length, InOutput(args.d_out[0], part), plan_.stride, static_cast<std::byte*>(target),
                              part.length};
      if (!part.reordered) {
        together.push_back(copy);
        continue;
      }
      copies_.CopyPieces(plan_.output.element, plan_.outer, std::span(&copy, 1));
      copies_.CopyLayout(part.as_output, target, part.desc, to);
    }
    copies_.CopyPieces(plan_.output.element, plan_.outer, together);
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
