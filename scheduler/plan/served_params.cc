#include "scheduler/plan/served_params.h"

#include <algorithm>
#include <set>

namespace hp {
namespace {

/// The row of a blob nearest to element `at` of all, the blob's first one being element `first`.
int64_t RowNear(int64_t at, int64_t first, const Block& blob) {
  const int64_t within = std::clamp<int64_t>(at - first, 0, blob.count());
  return (2 * within + blob.cols()) / (2 * blob.cols());
}

}  // namespace

std::vector<ServedParam> CutForServers(const NodePlan& replica, int stage, int servers) {
  std::set<int> learning;
  for (const int i : replica.learning_layers()) learning.insert(replica.layers()[i].layer);
  std::vector<ServedParam> served;
  int64_t elements = 0;
  for (const ParamPlan& param : replica.params()) {
    if (replica.placement().stage_of(param.graph_layer) != stage) continue;
    if (!learning.contains(param.graph_layer) || param.spec.lr_mult == 0) continue;
    served.push_back({param, {}});
    elements += param.block.count();
  }
  int64_t first = 0;
  uint32_t number = 0;
  for (ServedParam& entry : served) {
    const Block& blob = entry.param.block;
    for (int server = 0; server < servers; ++server) {
      const Range range = PartOf(elements, server, servers);
      const int64_t begin = RowNear(range.begin, first, blob), end = RowNear(range.end, first, blob);
      if (begin < end) {
        entry.slices.push_back({server, Block::Rows(entry.param.spec.shape, begin, end), number++});
      }
    }
    first += blob.count();
  }
  return served;
}

std::vector<ParamPlan> PartOfServer(const std::vector<ServedParam>& params, int server) {
  std::vector<ParamPlan> part;
  for (const ServedParam& entry : params) {
    for (const ServedParam::Slice& slice : entry.slices) {
      if (slice.server != server) continue;
      part.push_back(entry.param);
      part.back().block = slice.block;
    }
  }
  return part;
}

}  // namespace hp
