#pragma once

#include "proto/wire.pb.h"
#include "transport/transport.h"

#include <cstdint>
#include <map>
#include <optional>

namespace hp {

/// Adds up what the nodes say of each clock: the first node of the table has one. Not thread-safe.
class VerdictKeeper {
 public:
  /// @param nodes how many parts make a verdict.
  /// @param clip_gradients Caffe's: the norm that the gradients of the whole net are scaled down to; < 0: never.
  VerdictKeeper(int nodes, double clip_gradients) : nodes_(nodes), clip_gradients_(clip_gradients) {}

  /// @return the verdict of part.clock() when this was its last part. Sums go in the order of ranks; of several nodes
  /// with bad numbers the one of the lowest rank is named.
  std::optional<Verdict> Add(Rank rank, const VerdictPart& part);

 private:
  const int nodes_;
  const double clip_gradients_;
  std::map<int64_t, std::map<Rank, VerdictPart>> parts_;  // at most two clocks are open
};

}  // namespace hp
