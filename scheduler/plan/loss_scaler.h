#pragma once

#include "hp/status.h"
#include "proto/routing.pb.h"
#include "proto/snapshot.pb.h"

#include <cstdint>

namespace hp {

/// The loss scale (precision: FP16): losses multiply their gradients by it, the update divides by it again. It is
/// halved when a gradient overflows, and doubled after growth_interval finite updates in a row. Powers of two only, so
/// scaling changes no bit of a gradient that stays in range. The first node of the table decides for all nodes, by its
/// verdicts (VerdictKeeper). Not thread-safe. Source of the rules: PyTorch's torch.amp.GradScaler.
class LossScaler {
 public:
  /// The scale grows no further. The update's factor, clip scale / iter_size / loss scale, stays a normal float32 for
  /// every clip scale / iter_size down to 2^-26, so dividing by the loss scale rounds nothing.
  static constexpr double kLargest = 0x1p100;
  /// Whether `scale` is a power of two from 1 to kLargest.
  static bool IsScale(double scale);

  /// Starts at `initial`. @param config has passed CheckStructure.
  explicit LossScaler(const LossScaling& config);
  /// Takes scale and count from a snapshot's manifest. @return kDataLoss: the scale is none (IsScale), or the count is
  /// negative; the scaler is unchanged.
  Status Restore(const LossScalingState& state);
  /// The state to put into a snapshot; Restore of it gives an equal scaler.
  LossScalingState state() const;

  /// The scale of the next iteration's losses.
  double scale() const { return scale_; }
  /// Call once for each update whose gradients were all finite; may double the scale.
  void OnFinite();
  /// Call for an update with a gradient that is not finite; halves the scale.
  /// @return false: the scale is 1 already, so the overflow is the training's own fault; nothing changes.
  [[nodiscard]] bool BackOff();

 private:
  int64_t growth_interval_;  // finite updates; 0: the scale never grows
  double scale_;
  int64_t finite_updates_ = 0;  // since the scale last changed
};

}  // namespace hp
