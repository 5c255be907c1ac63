#pragma once

#include "backend/backend.h"
#include "backend/layout.h"

#include <functional>
#include <utility>
#include <vector>

namespace hp {

/// An op that knows float32 alone, on inputs of 16 bits, or the dense layout alone: they are converted in scratch
/// before each pass, and their gradients after. Each costs a pass over memory, so what many nets have behind
/// convolutions is better made for both.
/// @tparam Copies how a device copies: void CopyLayout(from_desc, from, to_desc, to) const.
template <typename Copies>
class OnFloat32Op final : public Op {
 public:
  /// @param float32 `in` as `op` was made for it.
  OnFloat32Op(Copies copies, const Backend::Descs& in, const Backend::Descs& float32, Backend::OpPtr op)
      : copies_(std::move(copies)), in_(in), float32_(float32), op_(std::move(op)) {
    outputs_ = op_->outputs();
    saved_bytes_ = op_->saved_bytes();
    packed_bytes_ = op_->packed_bytes();
    scratch_bytes_ = Aligned(op_->scratch_bytes());
    for (size_t i = 0; i < in_.size(); ++i) {
      for (std::vector<size_t>* offsets : {&values_, &gradients_}) {
        offsets->push_back(scratch_bytes_);
        if (Converts(i)) scratch_bytes_ += Aligned(float32_[i].bytes());
      }
    }
  }

  void Forward(const OpArgs& args) override {
    const std::vector<Tensor> in = Bring(args);
    OpArgs inner = args;
    inner.in = in;
    op_->Forward(inner);
  }
  void BackwardInput(const OpArgs& args) override {
    const std::vector<Tensor> in = backward_reads_input() ? Bring(args) : Places(args.in, args.scratch, values_);
    const std::vector<Tensor> d_in = Places(args.d_in, args.scratch, gradients_);
    OpArgs inner = args;
    inner.in = in, inner.d_in = d_in;
    op_->BackwardInput(inner);
    for (size_t i = 0; i < args.d_in.size(); ++i) {
      if (!Converts(i) || args.d_in[i].data == nullptr) continue;
      copies_.CopyLayout(float32_[i], d_in[i].data, in_[i], args.d_in[i].data);
    }
  }
  void BackwardParams(const OpArgs& args) override {
    const std::vector<Tensor> in = backward_reads_input() ? Bring(args) : Places(args.in, args.scratch, values_);
    OpArgs inner = args;
    inner.in = in;
    op_->BackwardParams(inner);
  }
  bool backward_reads_input() const override { return op_->backward_reads_input(); }
  bool backward_reads_output() const override { return op_->backward_reads_output(); }

 private:
  static size_t Aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }  // as a GPU's allocations are
  bool Converts(size_t i) const { return in_[i] != float32_[i]; }

  /// `tensors` as the op gets them: those that are converted at their places in scratch.
  std::vector<Tensor> Places(std::span<const Tensor> tensors, std::byte* scratch,
                             const std::vector<size_t>& offsets) const {
    std::vector<Tensor> places(tensors.begin(), tensors.end());
    for (size_t i = 0; i < places.size(); ++i) {
      if (Converts(i)) places[i] = {float32_[i], places[i].data == nullptr ? nullptr : scratch + offsets[i]};
    }
    return places;
  }
  std::vector<Tensor> Bring(const OpArgs& args) const {
    std::vector<Tensor> places = Places(args.in, args.scratch, values_);
    for (size_t i = 0; i < places.size(); ++i) {
      if (!Converts(i) || places[i].data == nullptr) continue;
      copies_.CopyLayout(in_[i], args.in[i].data, float32_[i], places[i].data);
    }
    return places;
  }

  const Copies copies_;
  const Backend::Descs in_, float32_;
  const Backend::OpPtr op_;
  std::vector<size_t> values_, gradients_;  // offsets in scratch
};

/// make(in) itself if all inputs are float32, else an OnFloat32Op. @param dense the same for the dense layout.
/// @return errors of `make`.
template <typename Copies, typename Make>
StatusOr<Backend::OpPtr> MakeOnFloat32(const Copies& copies, const Backend::Descs& in, const Make& make,
                                       bool dense = false) {
  Backend::Descs float32 = in;
  for (TensorDesc& desc : float32) {
    desc.element = ElementType::kFloat32;
    if (dense && EffectiveBlock(desc) != 1) desc.channel_block = 1;
  }
  HP_ASSIGN_OR_RETURN(Backend::OpPtr op, make(float32));
  if (float32 == in) return op;
  return Backend::OpPtr(std::make_unique<OnFloat32Op<Copies>>(copies, in, float32, std::move(op)));
}

}  // namespace hp
