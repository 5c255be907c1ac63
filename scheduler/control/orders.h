#pragma once

#include "base/mutex.h"
#include "scheduler/control/verdict.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>

namespace hp {

/// What concerns all nodes at once: each asks for it in its part of an iteration's verdict, the first node adds the
/// parts up, and the verdict's orders are carried out by all at the start of iteration t + 2. Any thread.
class Orders {
 public:
  /// An order of clock t is carried out between the updates that begin with t + kDelay.
  static constexpr int64_t kDelay = 2;

  /// Async-signal-safe.
  void RequestStop() { stop_ = true; }
  void RequestSnapshot() { snapshot_ = true; }
  /// Puts what was asked for here into our part of a verdict.
  void AddRequests(VerdictPart* part);

  /// Makes this the first node's, which adds the parts up. Parameters as VerdictKeeper's.
  void Keep(int nodes, double clip_gradients, const std::optional<LossScaler>& scaler) HP_EXCLUDES(mutex_);
  /// On the first node. @return the verdict, when this was its last part.
  std::optional<Verdict> AddPart(Rank from, const VerdictPart& part) HP_EXCLUDES(mutex_);
  /// On the first node: the loss scaler's state after the latest verdict. Nothing: another node, or losses are not
  /// scaled.
  std::optional<LossScalingState> loss_scaling() HP_EXCLUDES(mutex_);
  /// Keeps the orders of a verdict for their time.
  void Add(const Verdict& verdict) HP_EXCLUDES(mutex_);
  /// The orders for the boundary in front of `clock`.
  Verdict Peek(int64_t clock) HP_EXCLUDES(mutex_);
  /// The same; they and those of earlier ones are forgotten.
  Verdict Take(int64_t clock) HP_EXCLUDES(mutex_);

 private:
  std::atomic<bool> stop_{false}, snapshot_{false};
  Mutex mutex_;
  std::optional<VerdictKeeper> keeper_ HP_GUARDED_BY(mutex_);
  std::map<int64_t, Verdict> orders_ HP_GUARDED_BY(mutex_);  // by the clock that begins with them
};

}  // namespace hp
