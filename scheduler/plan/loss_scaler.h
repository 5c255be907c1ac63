#pragma once

#include "hp/status.h"
#include "proto/routing.pb.h"
#include "proto/snapshot.pb.h"

#include <cstdint>

namespace hp {

/// The factor of the losses' gradients, from one update to the next: halved when gradients overflow, doubled after
/// growth_interval finite updates in a row. The first node of the table has one. Not thread-safe.
/// Source of the rules: PyTorch's torch.amp.GradScaler.
class LossScaler {
 public:
  /// Dividing by it is exact for whatever clip_gradients and iter_size make of the gradients' factor down to 2^-26.
  static constexpr double kLargest = 0x1p100;
  /// Whether `scale` is a power of two from 1 to kLargest.
  static bool IsScale(double scale);

  /// @param config checked: CheckStructure.
  explicit LossScaler(const LossScaling& config);
  /// Goes on from what a snapshot says. @return kDataLoss: that is no state.
  Status Restore(const LossScalingState& state);
  LossScalingState state() const;

  /// Of the losses of the iteration that comes.
  double scale() const { return scale_; }
  /// All gradients of an update were finite.
  void OnFinite();
  /// Some were not. @return false: the scale was 1 and stays, so it was not to blame.
  [[nodiscard]] bool BackOff();

 private:
  int64_t growth_interval_;
  double scale_;
  int64_t finite_updates_ = 0;  // since the scale last changed
};

}  // namespace hp
