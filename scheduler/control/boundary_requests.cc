#include "scheduler/control/boundary_requests.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {

void BoundaryRequests::AddRequests(IterationReport* report) {
  report->set_stop(stop_);
  report->set_snapshot(snapshot_.exchange(false));
  clocks_reported_ = report->clock() + 1;
}

void BoundaryRequests::Keep(int nodes, double clip_gradients, const std::optional<LossScaler>& scaler,
                            int64_t max_iter) {
  MutexLock lock(&mutex_);
  max_iter_ = max_iter;
  keeper_.emplace(nodes, clip_gradients, scaler);
}

void BoundaryRequests::SetOwnerFiles(int64_t start) {
  MutexLock lock(&mutex_);
  CHECK(keeper_) << "on a node other than the first";
  keeper_->SetOwnerFiles(start);
}

// Each node's reports come in order, so verdicts are made in order; the first mutex has them followed in order too,
// when the next one is made on another thread meanwhile. The second is free then: who follows a verdict adds its
// requests.
void BoundaryRequests::AddReport(Rank from, const IterationReport& report,
                                 const std::function<void(const Verdict&)>& follow) {
  MutexLock one_at_a_time(&follow_mutex_);
  std::optional<Verdict> verdict;
  Answers answers;
  {
    MutexLock lock(&mutex_);
    CHECK(keeper_) << "received an iteration report on a node other than the first";
    verdict = keeper_->Add(from, report);
    if (verdict) {
      clocks_judged_ = verdict->clock() + 1;
      answers = TakeOrders(&*verdict);
    }
  }
  if (verdict) follow(*verdict);
  for (const auto& [done, answer] : answers) done(answer);
}

void BoundaryRequests::Order(const JobOrder& order, OrderSink done) {
  StatusOr<int64_t> answer(0);
  {
    MutexLock lock(&mutex_);
    CHECK(keeper_) << "received an order on a node other than the first";
    if (!stop_at_) {
      orders_.emplace_back(order, std::move(done));
      return;
    }
    if (order.kind() == JobOrder::STOP) {
      answer = *stop_at_;
    } else {
      answer = CheckOrder(order, *stop_at_ + 1);  // in a verdict behind that of the stop
    }
  }
  done(answer);
}

std::optional<int64_t> BoundaryRequests::stop_at() const {
  MutexLock lock(&mutex_);
  return stop_at_;
}

// A snapshot is taken at the end as well; a rate or a trace needs an iteration that is still to come.
Status BoundaryRequests::CheckOrder(const JobOrder& order, int64_t at) const {
  const bool snapshot = order.kind() == JobOrder::SNAPSHOT;
  if (stop_at_ && (*stop_at_ < at || (*stop_at_ == at && !snapshot)))
    return FailedPrecondition("the job stops at iteration %lld", static_cast<long long>(*stop_at_));
  if (order.kind() == JobOrder::STOP || at < max_iter_ || (snapshot && at == max_iter_)) return OkStatus();
  return FailedPrecondition("the job ends at iteration %lld, before the order can be carried out",
                            static_cast<long long>(max_iter_));
}

// The stop first: what it leaves to be done depends on it, whatever came first.
BoundaryRequests::Answers BoundaryRequests::TakeOrders(Verdict* verdict) {
  const int64_t due = verdict->clock() + delay_, at = std::min(due, max_iter_);
  for (const auto& [order, done] : orders_) {
    if (order.kind() == JobOrder::STOP) verdict->set_stop(true);
  }
  if (verdict->stop() && !stop_at_) stop_at_ = at;
  Answers answers;
  for (auto& [order, done] : orders_) {
    Status status = CheckOrder(order, due);
    if (verdict->status() != 0) status = FailedPrecondition("the job ends: its numbers are not finite");
    if (order.kind() == JobOrder::STOP && verdict->status() == 0) status = OkStatus();
    if (status.ok() && order.kind() == JobOrder::SNAPSHOT) verdict->set_snapshot(true);
    if (status.ok() && order.kind() == JobOrder::RATE) verdict->set_base_lr(order.base_lr());
    if (status.ok() && order.kind() == JobOrder::TRACE) verdict->set_trace(order.trace_on());
    answers.emplace_back(std::move(done), status.ok() ? StatusOr<int64_t>(at) : StatusOr<int64_t>(status));
  }
  orders_.clear();
  return answers;
}

int64_t BoundaryRequests::clocks_judged() {
  MutexLock lock(&mutex_);
  return clocks_judged_;
}

std::optional<LossScalingState> BoundaryRequests::loss_scaling() {
  MutexLock lock(&mutex_);
  return loss_scaling_;
}

void BoundaryRequests::Add(const Verdict& verdict) {
  if (verdict.has_finite_updates()) {
    MutexLock lock(&mutex_);
    loss_scaling_.emplace();
    loss_scaling_->set_scale(verdict.next_loss_scale());
    loss_scaling_->set_finite_updates(verdict.finite_updates());
  }
  if (!verdict.stop() && !verdict.snapshot() && !verdict.pull() && !verdict.has_trace() && verdict.owner_files() == 0)
    return;
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
