// Memory is laid out by slice, not by blob, since a transport's write has one contiguous target: [slice 0][slice 1]...
// of each parameter. For slices of whole rows that is the blob itself, which is read in place; for others (columns) it
// is put together when it is read, whole or in part.
#include "snapshot/gathered_model.h"

#include "glog/logging.h"

namespace hp {

StatusOr<std::shared_ptr<GatheredModel>> GatheredModel::Create(const std::vector<WholeParam>& params, int64_t iteration,
                                                               bool histories) {
  std::shared_ptr<GatheredModel> model(new GatheredModel(params, iteration));
  HP_RETURN_IF_ERROR(model->Allocate(histories).Prepend("weights of the whole net"));
  return model;
}

Status GatheredModel::Allocate(bool histories) {
  for (const WholeParam& param : params_) {
    int64_t count = 0;
    for (const WholeParam::Slice& slice : param.slices) count += slice.block.count();
    CHECK_EQ(count, param.whole.whole.count()) << param.whole.name() << ": its slices do not add up to the whole";
    std::vector<Buffer>& arrays = arrays_.emplace_back(1 + (histories ? param.whole.histories() : 0));
    for (Buffer& array : arrays) {
      HP_ASSIGN_OR_RETURN(array, Buffer::Allocate(count * sizeof(float)));
    }
  }
  return OkStatus();
}

std::span<float> GatheredModel::Place(size_t param, size_t slice, int array) const {
  const Buffer& memory = arrays_[param][array];
  if (memory.bytes() == 0) return {};
  int64_t offset = 0;
  for (size_t s = 0; s < slice; ++s) offset += params_[param].slices[s].block.count();
  return {memory.floats() + offset, static_cast<size_t>(params_[param].slices[slice].block.count())};
}

void GatheredModel::CopyValues(size_t param, int64_t begin, std::span<float> out) const {
  const WholeParam& whole = params_[param];
  for (size_t s = 0; s < whole.slices.size(); ++s) {
    PlaceBlockInPart(Place(param, s, 0), whole.slices[s].block, whole.whole.whole, begin, out);
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

StatusOr<const float*> GatheredModel::Whole(size_t param, int array, Buffer* room) const {
  const Buffer& memory = arrays_[param][array];
  const float* whole_blob = nullptr;
  if (memory.bytes() == 0) return whole_blob;
  if (InOrder(param)) return whole_blob = memory.floats();
  const WholeParam& whole = params_[param];
  HP_ASSIGN_OR_RETURN(*room, Buffer::Allocate(memory.bytes()));
  for (size_t s = 0; s < whole.slices.size(); ++s) {
    PlaceBlock(Place(param, s, array), whole.slices[s].block, whole.whole.whole,
               {room->floats(), memory.bytes() / sizeof(float)});
  }
  return whole_blob = room->floats();
}

}  // namespace hp
