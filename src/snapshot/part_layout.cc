#include "snapshot/part_layout.h"

#include <set>

namespace hp {

std::vector<PartSlice> PartLayout(const std::vector<WholeParam>& params, Rank owner) {
  std::vector<PartSlice> layout;
  for (size_t p = 0; p < params.size(); ++p) {
    for (const WholeParam::Slice& slice : params[p].slices) {
      if (slice.owner != owner || slice.block.empty()) continue;
      for (int array = 0; array <= params[p].whole.histories(); ++array) layout.push_back({p, slice.block, array});
    }
  }
  return layout;
}

int64_t PartBytes(const std::vector<PartSlice>& layout) {
  int64_t bytes = 0;
  for (const PartSlice& slice : layout) bytes += slice.block.count() * static_cast<int64_t>(sizeof(float));
  return bytes;
}

int64_t ParameterBytes(const std::vector<WholeParam>& params) {
  int64_t bytes = 0;
  for (const WholeParam& param : params) {
    bytes += param.whole.whole.count() * static_cast<int64_t>((1 + param.users.size()) * sizeof(float));
  }
  return bytes;
}

std::vector<Rank> PartOwners(const std::vector<WholeParam>& params) {
  std::set<Rank> owners;
  for (const WholeParam& param : params) {
    for (const WholeParam::Slice& slice : param.slices) {
      if (!slice.block.empty()) owners.insert(slice.owner);
    }
  }
  return {owners.begin(), owners.end()};
}

void DescribeParts(const std::vector<WholeParam>& params, SnapshotManifest* manifest) {
  for (const WholeParam& param : params) {
    SnapshotBlob* const blob = manifest->add_blob();
    blob->set_layer(param.whole.layer);
    blob->set_blob(param.whole.blob);
    for (const int64_t dim : param.whole.whole.dims()) blob->add_dim(dim);
  }
  for (const Rank owner : PartOwners(params)) {
    SnapshotPart* const part = manifest->add_part();
    for (const PartSlice& described : PartLayout(params, owner)) {
      SnapshotSlice* const slice = part->add_slice();
      slice->set_blob(static_cast<int>(described.param));
      slice->set_history(described.array > 0);
      if (described.array > 1) slice->set_history_number(described.array);
      slice->set_begin_row(described.block.begin_row);
      slice->set_end_row(described.block.end_row);
      slice->set_begin_col(described.block.begin_col);
      slice->set_end_col(described.block.end_col);
    }
  }
}

}  // namespace hp
