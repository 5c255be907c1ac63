#include "scheduler/verdict.h"

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
  for (const auto& [node, said] : parts) {
    sum += said.sum_of_squares();
    const bool finite = said.finite() && std::isfinite(said.sum_of_squares());
    if (!finite && verdict.status() == 0) {
      verdict.set_status(static_cast<int>(StatusCode::kNumeric));
      verdict.set_layer(said.layer());
    }
    verdict.set_stop(verdict.stop() || said.stop());
    verdict.set_snapshot(verdict.snapshot() || said.snapshot());
    verdict.set_pull(verdict.pull() || said.pull_size() > 0);
  }
  const double norm = std::sqrt(sum);
  if (clip_gradients_ >= 0 && norm > clip_gradients_) verdict.set_scale(clip_gradients_ / norm);
  parts_.erase(part.clock());
  return verdict;
}

}  // namespace hp
