// Memory is laid out by slice, not by blob, since a transport's write has one contiguous target: [slice 0][slice 1]...
// of each parameter. For slices of whole rows that is the blob itself, which is read in place; for others (columns) it
// is put together when it is read, whole or in part.
#include "engine/snapshot/gathered_model.h"

#include "glog/logging.h"

namespace hp {

GatheredModel::GatheredModel(const std::vector<WholeParam>& params, int64_t iteration, bool histories)
    : params_(params), iteration_(iteration) {
  for (const WholeParam& param : params_) {
    int64_t count = 0;
    for (const WholeParam::Slice& slice : param.slices) count += slice.block.count();
    CHECK_EQ(count, param.whole.whole.count()) << param.whole.name() << ": its slices do not add up to the whole";
    values_.emplace_back(count * sizeof(float));
    histories_.emplace_back(histories && !param.whole.frozen() ? count * sizeof(float) : 0);
  }
}

std::span<float> GatheredModel::Place(size_t param, size_t slice, bool history) const {
  const Buffer& memory = history ? histories_[param] : values_[param];
  if (memory.bytes() == 0) return {};
  int64_t offset = 0;
  for (size_t s = 0; s < slice; ++s) offset += params_[param].slices[s].block.count();
  return {memory.floats() + offset, static_cast<size_t>(params_[param].slices[slice].block.count())};
}

void GatheredModel::CopyValues(size_t param, int64_t begin, std::span<float> out) const {
  const WholeParam& whole = params_[param];
  for (size_t s = 0; s < whole.slices.size(); ++s) {
    PlaceBlockInPart(Place(param, s, false), whole.slices[s].block, whole.whole.whole, begin, out);
  }
}

bool GatheredModel::InOrder(size_t param) const {
  const int64_t columns = ColumnsOf(params_[param].whole.whole);
  int64_t row = 0;
  for (const WholeParam::Slice& slice : params_[param].slices) {
    if (slice.block.empty()) continue;
    if (slice.block.cols() != columns || slice.block.begin_row != row) return false;
    row = slice.block.end_row;
  }
  return true;
}

const float* GatheredModel::Whole(size_t param, bool history, Buffer* room) const {
  const Buffer& memory = history ? histories_[param] : values_[param];
  if (memory.bytes() == 0) return nullptr;
  if (InOrder(param)) return memory.floats();
  const WholeParam& whole = params_[param];
  *room = Buffer(memory.bytes());
  for (size_t s = 0; s < whole.slices.size(); ++s) {
    PlaceBlock(Place(param, s, history), whole.slices[s].block, whole.whole.whole,
               {room->floats(), memory.bytes() / sizeof(float)});
  }
  return room->floats();
}

}  // namespace hp
