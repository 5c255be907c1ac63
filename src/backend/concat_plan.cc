// In memory a tensor is [N][C / block][spatial][block]. Along any axis but the channels of NHWC, whatever is outside
// the concatenated axis counts the pieces (Outer), and everything from that axis inward is one contiguous piece. NHWC
// has its channels innermost, so there each pixel has a piece of every input.
#include "backend/concat_plan.h"

#include "backend/layout.h"

#include <algorithm>

namespace hp {
namespace {

int64_t ChooseBlock(int axis, const std::vector<TensorDesc>& in, bool blocks) {
  if (in[0].shape.rank() < 3) return 1;
  const auto all = [&](auto holds) { return std::all_of(in.begin(), in.end(), holds); };
  const int64_t block = in[0].channel_block;
  if (axis != 1) return all([&](const TensorDesc& desc) { return desc.channel_block == block; }) ? block : 1;
  const bool alike = all([&](const TensorDesc& desc) { return desc.channel_block == block; });
  const bool nhwc = all([](const TensorDesc& desc) { return desc.channel_block == desc.shape[1]; });
  // Where both hold, all inputs have equal channels: 1, 8 and 16 are dense and oneDNN's own blocks, others NHWC alone.
  const bool is_block = block == 1 || (blocks && (block == 8 || block == 16));
  if (alike && (!nhwc || is_block)) return block;
  if (!nhwc) return 1;
  int64_t channels = 0;
  for (const TensorDesc& desc : in) channels += desc.shape[1];
  return channels;
}

/// How often the inputs alternate in the output's memory, [N][C / block][spatial...][block].
int64_t Outer(int axis, const Shape& shape, bool nhwc, int64_t block) {
  if (axis == 1) return nhwc ? shape[0] * shape.count(2) : shape[0];
  return shape.count(0, axis) / (axis > 1 ? block : 1);
}

}  // namespace

ConcatPlan::ConcatPlan(int axis, const std::vector<TensorDesc>& in, bool blocks) {
  const int64_t block = ChooseBlock(axis, in, blocks);
  Shape shape = in[0].shape.With(axis, 0);
  for (const TensorDesc& desc : in) shape = shape.With(axis, shape[axis] + desc.shape[axis]);
  const bool one_type = std::all_of(in.begin(), in.end(), [&](auto& desc) { return desc.element == in[0].element; });
  output = {shape, block, one_type ? in[0].element : ElementType::kFloat32};
  const bool nhwc = axis == 1 && !output.dense() && block == shape[1];
  outer = Outer(axis, shape, nhwc, output.dense() ? 1 : block);
  for (const TensorDesc& desc : in) {
    Part part;
    part.desc = desc;
    part.as_output = {desc.shape, nhwc ? desc.shape[1] : block, output.element};
    part.length = desc.count() / outer;
    part.offset = stride;
    part.reordered = !SameOrder(desc, part.as_output) || desc.element != output.element;
    stride += part.length;
    if (part.reordered) scratch_bytes = std::max(scratch_bytes, part.as_output.bytes());
    parts.push_back(part);
  }
}

}  // namespace hp
