#pragma once

#include "base/rank.h"
#include "model/node_model.h"
#include "proto/snapshot.pb.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hp {

/// What one owner writes of a snapshot in parts (checkpoint/snapshot_parts.h), in the order of its file: all its
/// slices, each followed by its histories. All nodes compute the same from the plan. Frozen parameters have none.
struct PartSlice {
  size_t param = 0;  ///< index into NodeModel::whole_params
  Block block;       ///< not empty
  int array = 0;     ///< 0: values; else the number of the history
};
std::vector<PartSlice> PartLayout(const std::vector<WholeParam>& params, Rank owner);
int64_t PartBytes(const std::vector<PartSlice>& layout);

/// Of the whole net in a .caffemodel, where shared parameters stand under each name; histories not counted.
int64_t ParameterBytes(const std::vector<WholeParam>& params);

/// The nodes that own anything, in the order of ranks.
std::vector<Rank> PartOwners(const std::vector<WholeParam>& params);

/// Adds to a manifest what blobs there are, and each owner's slices; names, sizes and sums are missing.
void DescribeParts(const std::vector<WholeParam>& params, SnapshotManifest* manifest);

}  // namespace hp
