#include "backend/cuda/float32_inputs.h"

#include "backend/cuda/scratch.h"

#include <algorithm>

namespace hp::cuda {
namespace {

class OnFloat32Op final : public Op {
 public:
  OnFloat32Op(const GpuContext& context, const Backend::Descs& in, const Backend::Descs& float32, Backend::OpPtr op)
      : context_(context), in_(in), float32_(float32), op_(std::move(op)) {
    outputs_ = op_->outputs();
    saved_bytes_ = op_->saved_bytes();
    ScratchPlan plan;
    plan.Add(op_->scratch_bytes());
    for (size_t i = 0; i < in_.size(); ++i) {
      values_.push_back(plan.Add(Converts(i) ? float32_[i].bytes() : 0));
      gradients_.push_back(plan.Add(Converts(i) ? float32_[i].bytes() : 0));
    }
    scratch_bytes_ = plan.bytes();
  }

  void Forward(const OpArgs& args) override {
    std::vector<Tensor> in = Places(args.in, args.scratch, values_);
    Bring(args, in);
    OpArgs inner = args;
    inner.in = in;
    op_->Forward(inner);
  }
  void BackwardInput(const OpArgs& args) override {
    const std::vector<Tensor> in = Places(args.in, args.scratch, values_);
    const std::vector<Tensor> d_in = Places(args.d_in, args.scratch, gradients_);
    if (backward_reads_input()) Bring(args, in);
    OpArgs inner = args;
    inner.in = in, inner.d_in = d_in;
    op_->BackwardInput(inner);
    for (size_t i = 0; i < args.d_in.size(); ++i) {
      if (!Converts(i) || args.d_in[i].data == nullptr) continue;
      CopyLayout(context_.stream(), float32_[i], d_in[i].data, in_[i], args.d_in[i].data);
    }
  }
  bool backward_reads_input() const override { return op_->backward_reads_input(); }
  bool backward_reads_output() const override { return op_->backward_reads_output(); }

 private:
  bool Converts(size_t i) const { return in_[i].element != ElementType::kFloat32; }

  /// `tensors` as the op gets them: those of 16 bits at their places in scratch.
  std::vector<Tensor> Places(std::span<const Tensor> tensors, std::byte* scratch,
                             const std::vector<size_t>& offsets) const {
    std::vector<Tensor> places(tensors.begin(), tensors.end());
    for (size_t i = 0; i < places.size(); ++i) {
      if (Converts(i) && places[i].data != nullptr) places[i] = {float32_[i], scratch + offsets[i]};
    }
    return places;
  }
  void Bring(const OpArgs& args, const std::vector<Tensor>& places) const {
    for (size_t i = 0; i < places.size(); ++i) {
      if (Converts(i)) CopyLayout(context_.stream(), in_[i], args.in[i].data, float32_[i], places[i].data);
    }
  }

  const GpuContext context_;
  const Backend::Descs in_, float32_;
  const Backend::OpPtr op_;
  std::vector<size_t> values_, gradients_;  ///< offsets in scratch
};

}  // namespace

StatusOr<Backend::OpPtr> OnFloat32(const GpuContext& context, const Backend::Descs& in,
                                   const std::function<StatusOr<Backend::OpPtr>(const Backend::Descs& in)>& make) {
  Backend::Descs float32 = in;
  for (TensorDesc& desc : float32) desc.element = ElementType::kFloat32;
  HP_ASSIGN_OR_RETURN(Backend::OpPtr op, make(float32));
  if (float32 == in) return op;
  return Backend::OpPtr(std::make_unique<OnFloat32Op>(context, in, float32, std::move(op)));
}

}  // namespace hp::cuda
