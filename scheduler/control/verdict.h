#pragma once

#include "base/rank.h"
#include "proto/wire.pb.h"
#include "scheduler/plan/loss_scaler.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace hp {

/// Merges the nodes' reports of each clock into one verdict for all nodes: whether they update, by which factor
/// gradients are scaled, the norms that rates go by, and which requests they carry out. The first node of the table has
/// one, in its BoundaryRequests. Not thread-safe.
///
///   losses    gradients    verdict
///   finite    finite       go; `scale` < 1 if their norm is above clip_gradients
///   finite    not finite   skip, and the loss scale is halved; stop if losses are not scaled, or at scale 1
///   not finite             stop: `status` is kNumeric
class VerdictKeeper {
 public:
  /// @param nodes number of nodes: so many reports, one of each, make a verdict.
  /// @param clip_gradients Caffe's: the L2 norm that the gradients of the whole net are scaled down to; < 0: never.
  /// @param scaler state of the loss scale before the first verdict; nothing: losses are not scaled.
  VerdictKeeper(int nodes, double clip_gradients, const std::optional<LossScaler>& scaler = std::nullopt)
      : nodes_(nodes), clip_gradients_(clip_gradients), scaler_(scaler) {}

  /// Adds the report of node `rank`. Sums go in the order of ranks whatever the order of arrival, so the verdict has
  /// the same bits in every run; of several layers with bad numbers the one of the lowest rank is named. With a scaler
  /// the clocks complete in their order, because no node begins one before the verdict of the one before.
  /// @return the verdict of report.clock() if this was the last report that it lacked, else nothing.
  std::optional<Verdict> Add(Rank rank, const IterationReport& report);

  /// From the next verdict on that all nodes' reports say that they share the first node's folder, verdicts have them
  /// write their slices of snapshots themselves. @param start number of this start of the job, at least 1.
  void SetOwnerFiles(int64_t start) { owner_files_ = start; }

  /// The loss scale after the latest verdict; nothing: losses are not scaled.
  const std::optional<LossScaler>& scaler() const { return scaler_; }

 private:
  /// Sets go, skip or stop, and the next loss scale. @param layer where a number is not finite.
  void Judge(bool losses_finite, bool gradients_finite, const std::string& layer, Verdict* verdict);

  const int nodes_;
  const double clip_gradients_;
  std::optional<LossScaler> scaler_;
  int64_t owner_files_ = 0;
  std::map<int64_t, std::map<Rank, IterationReport>> reports_;  // of the clocks that are open
};

}  // namespace hp
