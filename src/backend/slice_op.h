#pragma once

#include "backend/concat_plan.h"
#include "backend/layout.h"
#include "backend/op.h"
#include "backend/strided_copy.h"

#include "glog/logging.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace hp {

/// Backend::Slice for any device: what ConcatOp does, the other way round. The outputs have the input's layout where
/// each of them can; else they are dense, and so is the input, in scratch.
/// @tparam Copies how a device copies, as ConcatOp's, and void Zero(desc, to) const.
template <typename Copies>
class SliceOp final : public Op {
 public:
  /// @param sizes of the outputs along `axis`; they add up to the input's. @param blocks as ConcatPlan's.
  SliceOp(Copies copies, int axis, const std::vector<int64_t>& sizes, const TensorDesc& in, bool blocks)
      : copies_(std::move(copies)), in_(in), plan_(PlanFor(axis, sizes, in, blocks)) {
    for (const ConcatPlan::Part& part : plan_.parts) {
      CHECK(!part.reordered) << "slices of other layouts";
      outputs_.push_back(part.desc);
    }
    reordered_ = !SameOrder(in, plan_.output);
    if (reordered_) scratch_bytes_ = plan_.output.bytes();
  }

  void Forward(const OpArgs& args) override {
    const void* whole = args.in[0].data;
    if (reordered_) {
      copies_.CopyLayout(in_, whole, plan_.output, args.scratch);
      whole = args.scratch;
    }
    std::vector<PieceCopy> copies;
    for (size_t i = 0; i < plan_.parts.size(); ++i) {
      const ConcatPlan::Part& part = plan_.parts[i];
      copies.push_back({part.length, static_cast<const std::byte*>(whole) + Offset(part), plan_.stride,
                        static_cast<std::byte*>(args.out[i].data), part.length});
    }
    copies_.CopyPieces(in_.element, plan_.outer, copies);
  }
  void BackwardInput(const OpArgs& args) override {
    void* const to = args.d_in[0].data;
    if (to == nullptr) return;
    void* const whole = reordered_ ? args.scratch : to;
    bool all = true;
    for (const Tensor& d_out : args.d_out) all = all && d_out.data != nullptr;
    if (!all) copies_.Zero(plan_.output, whole);
    std::vector<PieceCopy> copies;
    for (size_t i = 0; i < plan_.parts.size(); ++i) {
      const ConcatPlan::Part& part = plan_.parts[i];
      if (args.d_out[i].data == nullptr) continue;
      copies.push_back({part.length, static_cast<const std::byte*>(args.d_out[i].data), part.length,
                        static_cast<std::byte*>(whole) + Offset(part), plan_.stride});
    }
    copies_.CopyPieces(in_.element, plan_.outer, copies);
    if (reordered_) copies_.CopyLayout(plan_.output, whole, in_, to);
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  static ConcatPlan PlanFor(int axis, const std::vector<int64_t>& sizes, const TensorDesc& in, bool blocks) {
    const auto plan = [&](auto block_of) {
      std::vector<TensorDesc> parts;
      for (const int64_t size : sizes) parts.push_back({in.shape.With(axis, size), block_of(size), in.element});
      return ConcatPlan(axis, parts, blocks);
    };
    const bool nhwc = !in.dense() && in.channel_block == in.shape[1];
    const ConcatPlan kept = plan([&](int64_t size) {
      if (in.dense()) return int64_t{1};
      if (axis != 1) return in.channel_block;
      if (nhwc) return size;
      return size % in.channel_block == 0 ? in.channel_block : int64_t{1};
    });
    bool keeps = SameOrder(in, kept.output);
    for (const ConcatPlan::Part& part : kept.parts) keeps = keeps && !part.reordered;
    return keeps ? kept : plan([](int64_t) { return int64_t{1}; });
  }
  size_t Offset(const ConcatPlan::Part& part) const { return part.offset * BytesOf(in_.element); }

  const Copies copies_;
  const TensorDesc in_;
  const ConcatPlan plan_;
  bool reordered_ = false;
};

}  // namespace hp
