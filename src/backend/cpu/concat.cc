#include "backend/cpu/ops.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/reorder.h"

#include <algorithm>

namespace hp {
namespace {

/// The layout of the output: the inputs' block where all have the same and (channels side by side) it divides each,
/// which it does by itself; NHWC where all are NHWC; else dense.
int64_t ChooseBlock(int axis, const Backend::Descs& in) {
  if (in[0].shape.rank() < 3) return 1;
  const auto all = [&](auto holds) { return std::all_of(in.begin(), in.end(), holds); };
  const int64_t block = in[0].channel_block;
  if (axis != 1) return all([&](const TensorDesc& desc) { return desc.channel_block == block; }) ? block : 1;
  const bool blocked = all([&](const TensorDesc& desc) { return desc.channel_block == block; });
  const bool nhwc = all([](const TensorDesc& desc) { return desc.channel_block == desc.shape[1]; });
  // Where both hold, all inputs have equal channels: 1, 8 and 16 are dense and oneDNN's own blocks, others NHWC alone.
  if (blocked && (!nhwc || block == 1 || block == 8 || block == 16)) return block;
  if (!nhwc) return 1;
  int64_t channels = 0;
  for (const TensorDesc& desc : in) channels += desc.shape[1];
  return channels;
}

/// Inputs side by side along one axis. In memory each input is `outer_` pieces of its own length, which alternate in
/// the output; an input in another layout than the output's is reordered through scratch.
class ConcatOp final : public Op {
 public:
  ConcatOp(int axis, const Backend::Descs& in) {
    const int64_t block = ChooseBlock(axis, in);
    Shape shape = in[0].shape.With(axis, 0);
    for (const TensorDesc& desc : in) shape = shape.With(axis, shape[axis] + desc.shape[axis]);
    outputs_ = {{shape, block}};
    const bool nhwc = axis == 1 && !outputs_[0].dense() && block == shape[1];
    outer_ = Outer(axis, shape, nhwc, outputs_[0].dense() ? 1 : block);
    for (const TensorDesc& desc : in) AddPart(desc, nhwc);
  }

  void Forward(const OpArgs& args) override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      const float* from = args.in[i].data;
      if (part.reordered) {
        float* scratch = reinterpret_cast<float*>(args.scratch);
        CopyLayout(part.desc, from, part.as_output, scratch);
        from = scratch;
      }
      CopyPieces(part.length, from, part.length, args.out[0].data + part.offset, stride_);
    }
  }
  void BackwardInput(const OpArgs& args) override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      float* to = args.d_in[i].data;
      if (to == nullptr) continue;
      float* target = part.reordered ? reinterpret_cast<float*>(args.scratch) : to;
      CopyPieces(part.length, args.d_out[0].data + part.offset, stride_, target, part.length);
      if (part.reordered) CopyLayout(part.as_output, target, part.desc, to);
    }
  }
  bool backward_reads_input() const override { return false; }
  bool backward_reads_output() const override { return false; }

 private:
  struct Part {
    TensorDesc desc, as_output;
    int64_t length = 0, offset = 0;  ///< of its pieces, within stride_ elements of the output
    bool reordered = false;
  };

  /// How often the inputs alternate in the output's memory, [N][C / block][spatial...][block].
  static int64_t Outer(int axis, const Shape& shape, bool nhwc, int64_t block) {
    if (axis == 1) return nhwc ? shape[0] * shape.count(2) : shape[0];
    return shape.count(0, axis) / (axis > 1 ? block : 1);
  }

  void AddPart(const TensorDesc& desc, bool nhwc) {
    Part part;
    part.desc = desc;
    part.as_output = {desc.shape, nhwc ? desc.shape[1] : outputs_[0].channel_block};
    part.length = desc.count() / outer_;
    part.offset = stride_;
    part.reordered = !SameOrder(desc, part.as_output);
    stride_ += part.length;
    if (part.reordered) scratch_bytes_ = std::max(scratch_bytes_, desc.bytes());
    parts_.push_back(part);
  }

  void CopyPieces(int64_t length, const float* from, int64_t from_stride, float* to, int64_t to_stride) const {
    ForItems(outer_, outer_ * length,
             [=](int64_t i) { std::copy_n(from + i * from_stride, length, to + i * to_stride); });
  }

  std::vector<Part> parts_;
  int64_t outer_ = 1, stride_ = 0;
};

}  // namespace

StatusOr<Backend::OpPtr> MakeConcat(int axis, const Backend::Descs& in) {
  return Backend::OpPtr(std::make_unique<ConcatOp>(axis, in));
}

}  // namespace hp
