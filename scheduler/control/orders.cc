#include "scheduler/control/orders.h"

#include "glog/logging.h"

namespace hp {

void Orders::AddRequests(VerdictPart* part) {
  part->set_stop(stop_);
  part->set_snapshot(snapshot_.exchange(false));
}

void Orders::Keep(int nodes, double clip_gradients, const std::optional<LossScaler>& scaler) {
  MutexLock lock(&mutex_);
  keeper_.emplace(nodes, clip_gradients, scaler);
}

std::optional<Verdict> Orders::AddPart(Rank from, const VerdictPart& part) {
  MutexLock lock(&mutex_);
  CHECK(keeper_) << "a part of a verdict, and this is not the first node";
  return keeper_->Add(from, part);
}

std::optional<LossScalingState> Orders::loss_scaling() {
  MutexLock lock(&mutex_);
  if (!keeper_ || !keeper_->scaler()) return std::nullopt;
  return keeper_->scaler()->state();
}

void Orders::Add(const Verdict& verdict) {
  if (!verdict.stop() && !verdict.snapshot() && !verdict.pull()) return;
  MutexLock lock(&mutex_);
  orders_[verdict.clock() + kDelay] = verdict;
}

Verdict Orders::Peek(int64_t clock) {
  MutexLock lock(&mutex_);
  const auto found = orders_.find(clock);
  return found == orders_.end() ? Verdict() : found->second;
}

Verdict Orders::Take(int64_t clock) {
  Verdict order = Peek(clock);
  MutexLock lock(&mutex_);
  orders_.erase(orders_.begin(), orders_.upper_bound(clock));
  return order;
}

}  // namespace hp
