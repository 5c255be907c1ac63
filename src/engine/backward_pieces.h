#pragma once

#include <cstddef>
#include <vector>

namespace hp {

/// What a step of a backward pass gives to an exchange of gradients.
struct StepGradients {
  int stage = -1;             ///< whose exchange takes them; -1: the step gives nothing
  int group = -1;             ///< index into PipelinePlan::groups
  std::vector<size_t> bytes;  ///< of each of the group's gradients that are exchanged, in their order
};

/// Steps of a backward pass that are computed in one go, and the groups that go to their exchanges behind them.
struct BackwardPiece {
  size_t begin = 0, end = 0;  ///< indices into the steps, in the order of the pass
  std::vector<int> groups;    ///< in the order in which the steps give them
};

/// Cuts a backward pass where a bucket of gradients is full (Exchange::kBucketBytes): there an exchange begins to sum
/// them, and what it holds back before, it would not have sent anyway. So a device that records work records some
/// megabytes of layers at once instead of each layer, and sums begin behind the same steps as without pieces, but for
/// a bucket that an earlier segment has begun.
/// @param steps in the order of the pass. @return pieces that have all of them, in that order; none if there are none.
std::vector<BackwardPiece> CutBackward(const std::vector<StepGradients>& steps);

}  // namespace hp
