// Reports lie by clock and rank until the last one of a clock is there. Then they are added up in the order of ranks,
// and one verdict follows from the sum. Nodes say of their losses whether they are finite; a gradient that is not shows
// in its node's sum of squares.
#include "scheduler/control/verdict.h"

#include "hp/status.h"

#include <cmath>

namespace hp {

std::optional<Verdict> VerdictKeeper::Add(Rank rank, const IterationReport& report) {
  auto& reports = reports_[report.clock()];
  reports[rank] = report;
  if (static_cast<int>(reports.size()) < nodes_) return std::nullopt;
  Verdict verdict;
  verdict.set_clock(report.clock());
  double sum = 0;
  bool losses_finite = true, gradients_finite = true, share_folder = true;
  std::string layer;
  std::map<int, ParamSquares> params;
  for (const auto& [node, of_node] : reports) {
    sum += of_node.sum_of_squares();
    const bool finite = std::isfinite(of_node.sum_of_squares());
    if (losses_finite && gradients_finite && !(of_node.finite() && finite)) layer = of_node.layer();
    losses_finite &= of_node.finite();
    gradients_finite &= finite;
    share_folder &= of_node.shares_folder();
    verdict.set_stop(verdict.stop() || of_node.stop());
    verdict.set_snapshot(verdict.snapshot() || of_node.snapshot());
    verdict.set_pull(verdict.pull() || of_node.pull_size() > 0);
    for (const ParamSquares& part : of_node.params()) {
      ParamSquares& whole = params[part.param()];
      whole.set_param(part.param());
      whole.set_gradient(whole.gradient() + part.gradient());
      whole.set_values(whole.values() + part.values());
    }
  }
  for (const auto& [index, param] : params) *verdict.add_params() = param;
  if (share_folder && owner_files_ > 0) verdict.set_owner_files(owner_files_);
  Judge(losses_finite, gradients_finite, layer, &verdict);
  // Before gradients are divided by iter_size. Source: Caffe, src/caffe/solvers/sgd_solver.cpp, ClipGradients.
  const double norm = std::sqrt(sum);
  if (gradients_finite && clip_gradients_ >= 0 && norm > clip_gradients_) verdict.set_scale(clip_gradients_ / norm);
  reports_.erase(report.clock());
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
  if (scaler_) {
    verdict->set_next_loss_scale(scaler_->scale());
    verdict->set_finite_updates(scaler_->state().finite_updates());
  }
}

}  // namespace hp
