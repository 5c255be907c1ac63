#pragma once

#include "base/rank.h"
#include "proto/wire.pb.h"
#include "scheduler/plan/loss_scaler.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace hp {

/// Adds up what the nodes say of each clock: the first node of the table has one. Not thread-safe.
class VerdictKeeper {
 public:
  /// @param nodes how many parts make a verdict.
  /// @param clip_gradients Caffe's: the norm that the gradients of the whole net are scaled down to; < 0: never.
  /// @param scaler of the losses, as it is before the first verdict; nothing: they are not scaled.
  VerdictKeeper(int nodes, double clip_gradients, const std::optional<LossScaler>& scaler = std::nullopt)
      : nodes_(nodes), clip_gradients_(clip_gradients), scaler_(scaler) {}

  /// @return the verdict of part.clock() when this was its last part. Sums go in the order of ranks; of several nodes
  /// with bad numbers the one of the lowest rank is named. Clocks complete in their order where losses are scaled,
  /// because no node begins one before the verdict of the one before.
  std::optional<Verdict> Add(Rank rank, const VerdictPart& part);

  /// The scaler after the latest verdict.
  const std::optional<LossScaler>& scaler() const { return scaler_; }

 private:
  /// Go, skip or stop, and the next scale. @param layer where numbers are not finite.
  void Judge(bool losses_finite, bool gradients_finite, const std::string& layer, Verdict* verdict);

  const int nodes_;
  const double clip_gradients_;
  std::optional<LossScaler> scaler_;
  std::map<int64_t, std::map<Rank, VerdictPart>> parts_;  // at most two clocks are open
};

}  // namespace hp
