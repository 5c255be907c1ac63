#include "scheduler/plan/loss_scaler.h"

#include <algorithm>
#include <cmath>

namespace hp {

bool LossScaler::IsScale(double scale) {
  int exponent = 0;
  return scale >= 1 && scale <= kLargest && std::frexp(scale, &exponent) == 0.5;
}

LossScaler::LossScaler(const LossScaling& config)
    : growth_interval_(config.growth_interval()), scale_(config.initial()) {}

Status LossScaler::Restore(const LossScalingState& state) {
  if (!IsScale(state.scale()) || state.finite_updates() < 0) {
    return DataLoss("loss scale %g after %lld finite updates; expected a power of two from 1 to 2^100, and 0 or more",
                    state.scale(), static_cast<long long>(state.finite_updates()));
  }
  scale_ = state.scale();
  finite_updates_ = state.finite_updates();
  return OkStatus();
}

LossScalingState LossScaler::state() const {
  LossScalingState state;
  state.set_scale(scale_);
  state.set_finite_updates(finite_updates_);
  return state;
}

void LossScaler::OnFinite() {
  ++finite_updates_;
  if (growth_interval_ == 0 || finite_updates_ < growth_interval_) return;
  scale_ = std::min(2 * scale_, kLargest);
  finite_updates_ = 0;
}

bool LossScaler::BackOff() {
  if (scale_ == 1) return false;
  scale_ /= 2;
  finite_updates_ = 0;
  return true;
}

}  // namespace hp
