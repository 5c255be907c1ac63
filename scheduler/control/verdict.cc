#include "scheduler/control/verdict.h"

#include "hp/status.h"

#include <cmath>

namespace hp {

std::optional<Verdict> VerdictKeeper::Add(Rank rank, const VerdictPart& part) {
  auto& parts = parts_[part.clock()];
  parts[rank] = part;
  if (static_cast<int>(parts.size()) < nodes_) return std::nullopt;
  Verdict verdict;
  verdict.set_clock(part.clock());
  double sum = 0;
  bool losses_finite = true, gradients_finite = true;
  std::string layer;
  for (const auto& [node, said] : parts) {
    sum += said.sum_of_squares();
    const bool finite = std::isfinite(said.sum_of_squares());
    if (losses_finite && gradients_finite && !(said.finite() && finite)) layer = said.layer();
    losses_finite &= said.finite();
    gradients_finite &= finite;
    verdict.set_stop(verdict.stop() || said.stop());
    verdict.set_snapshot(verdict.snapshot() || said.snapshot());
    verdict.set_pull(verdict.pull() || said.pull_size() > 0);
  }
  Judge(losses_finite, gradients_finite, layer, &verdict);
  const double norm = std::sqrt(sum);
  if (gradients_finite && clip_gradients_ >= 0 && norm > clip_gradients_) verdict.set_scale(clip_gradients_ / norm);
  parts_.erase(part.clock());
  return verdict;
}

void VerdictKeeper::Judge(bool losses_finite, bool gradients_finite, const std::string& layer, Verdict* verdict) {
  if (!losses_finite || !gradients_finite) verdict->set_layer(layer);
  if (losses_finite && gradients_finite) {
    if (scaler_) scaler_->OnFinite();
  } else if (losses_finite && scaler_ && scaler_->BackOff()) {
    verdict->set_skip(true);
  } else {
    verdict->set_status(static_cast<int>(StatusCode::kNumeric));
  }
  if (scaler_) verdict->set_next_loss_scale(scaler_->scale());
}

}  // namespace hp
