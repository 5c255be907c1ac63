#include "scheduler/control/boundary_requests.h"

#include "glog/logging.h"

namespace hp {

void BoundaryRequests::AddRequests(IterationReport* report) {
  report->set_stop(stop_);
  report->set_snapshot(snapshot_.exchange(false));
  clocks_reported_ = report->clock() + 1;
}

void BoundaryRequests::Keep(int nodes, double clip_gradients, const std::optional<LossScaler>& scaler) {
  MutexLock lock(&mutex_);
  keeper_.emplace(nodes, clip_gradients, scaler);
}

// Each node's reports come in order, so verdicts are made in order; the first mutex has them followed in order too,
// when the next one is made on another thread meanwhile. The second is free then: who follows a verdict adds its
// requests.
void BoundaryRequests::AddReport(Rank from, const IterationReport& report,
                                 const std::function<void(const Verdict&)>& follow) {
  MutexLock one_at_a_time(&follow_mutex_);
  std::optional<Verdict> verdict;
  {
    MutexLock lock(&mutex_);
    CHECK(keeper_) << "received an iteration report on a node other than the first";
    verdict = keeper_->Add(from, report);
    if (verdict) clocks_judged_ = verdict->clock() + 1;
  }
  if (verdict) follow(*verdict);
}

int64_t BoundaryRequests::clocks_judged() {
  MutexLock lock(&mutex_);
  return clocks_judged_;
}

std::optional<LossScalingState> BoundaryRequests::loss_scaling() {
  MutexLock lock(&mutex_);
  if (!keeper_ || !keeper_->scaler()) return std::nullopt;
  return keeper_->scaler()->state();
}

void BoundaryRequests::Add(const Verdict& verdict) {
  if (!verdict.stop() && !verdict.snapshot() && !verdict.pull()) return;
  MutexLock lock(&mutex_);
  requests_[verdict.clock() + delay_] = verdict;
}

Verdict BoundaryRequests::Peek(int64_t clock) {
  MutexLock lock(&mutex_);
  const auto found = requests_.find(clock);
  return found == requests_.end() ? Verdict() : found->second;
}

Verdict BoundaryRequests::Take(int64_t clock) {
  Verdict request = Peek(clock);
  MutexLock lock(&mutex_);
  requests_.erase(requests_.begin(), requests_.upper_bound(clock));
  return request;
}

}  // namespace hp
