#include "backend/cpu/input_rows.h"

#include "backend/cpu/reorder.h"
#include "backend/layout.h"

#include <algorithm>

namespace hp {

InputRows::InputRows(const std::vector<TensorDesc>& in, int axis)
    : rows_(in[0].shape.count() / in[0].shape.count(axis)) {
  for (const TensorDesc& input : in) {
    const bool in_place = EffectiveBlock(input) == 1 && input.element == ElementType::kFloat32;
    Block block = {input, columns_, input.shape.count(axis), in_place, copy_floats_};
    columns_ += block.columns;
    if (!block.dense) copy_floats_ += (rows_ * block.columns + 15) / 16 * 16;
    blocks_.push_back(block);
  }
}

void InputRows::Bring(const OpArgs& args) const {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const TensorDesc& desc = blocks_[i].desc;
    if (!blocks_[i].dense) CopyLayout(desc, args.in[i].data, {desc.shape, 1}, Copy(args, i));
  }
}

void InputRows::CopyRow(const OpArgs& args, int64_t row, float* to) const {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    std::copy_n(Rows(args, i) + row * blocks_[i].columns, blocks_[i].columns, to + blocks_[i].first);
  }
}

void InputRows::StoreGradient(const OpArgs& args, size_t i) const {
  const TensorDesc& desc = blocks_[i].desc;
  if (!blocks_[i].dense) CopyLayout({desc.shape, 1}, Copy(args, i), desc, args.d_in[i].data);
}

}  // namespace hp
