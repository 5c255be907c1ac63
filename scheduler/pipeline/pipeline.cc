// Every event takes the lock, changes the state of a flight (flights.h) or of a clock (clock_state.h), and puts what
// can be computed now into `ready_`, which the executor empties in the order of work. Nothing is handed out before all
// that it needs is there, so no task waits, neither for this node nor for another: with a fixed list of tasks a node
// that waits in one of them could keep a peer from what it waits for. A clock goes: boundary -> its ids are bound as
// solvers get free -> norms and updates as gradients become final -> finished -> the next clock opens.
#include "scheduler/pipeline/pipeline.h"

#include "base/format.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {

Pipeline::Pipeline(const PipelinePlan& plan, const class Schedule& schedule, PipelineHost* host, Transport* transport,
                   const Clock* clock)
    : plan_(plan),
      schedule_(schedule),
      host_(host),
      clock_(clock),
      flights_(&plan_, host, transport),
      iteration_(plan.start_clock),
      verdict_(plan.start_clock - 1) {
  for (const ParamGroupPlan& group : plan_.groups) {
    const bool serves = group.exchange == GroupExchange::kServe;
    CHECK(group.exchange == GroupExchange::kNone || (serves ? group.deferred : group.in_backward))
        << "an exchanged group needs its gradient in the backward pass, a served one in the update";
  }
  for (int solver = 0; solver < plan_.pool_size; ++solver) free_solvers_.insert(solver);
}

void Pipeline::Start() {
  MutexLock lock(&mutex_);
  started_ = true;
  OpenClock();
}

// --- Clocks

// Rule [version]: a clock opens when its version is there, which its ids compute with (the caller knows). Rule
// [one-gradient]: and when the one before is finished, whose sums its gradients would be added to. Rule
// [after-verdict]: and when the verdict of the clock before the last has arrived, and the host has room for what its
// boundary does; the last one of all waits for every verdict, so that a job ends only with good numbers.
void Pipeline::OpenClock() {
  if (!started_ || finished_ || clocks_.contains(iteration_)) return;
  if (AwaitsVerdict() || !host_->BoundaryReady(iteration_)) return;
  clocks_.emplace(iteration_, ClockState(&plan_, iteration_));
  Push({.kind = Task::kBoundary, .clock = iteration_});
}

bool Pipeline::AwaitsVerdict() const {
  const bool last = iteration_ >= schedule_.shape().max_iter || (stop_at_ && iteration_ >= *stop_at_);
  return verdict_ < iteration_ - (last ? 1 : 2);
}

void Pipeline::FinishBoundary(int64_t clock) {
  if (stop_at_ && clock >= *stop_at_) {
    clocks_.at(clock).Open({}, {}, false);
  } else {
    ClockState& state = clocks_.at(clock);
    state.Open(schedule_.TestIds(clock, plan_.share), schedule_.TrainIds(clock, plan_.share),
               clock < schedule_.shape().max_iter);
    const auto early = early_.extract(clock);
    for (const auto& [stage, group] : early ? early.mapped() : EarlyGroups()) state.OnExchanged(stage, group);
  }
  BindMore();
  Progress(clock);
}

// Something of the clock is done: hands out the updates that may begin now, or its end.
void Pipeline::Progress(int64_t clock) {
  ClockState& state = clocks_.at(clock);
  const bool has_verdict = verdict_ >= clock;
  Push(state.TakeDue(has_verdict));
  if (!state.Finished(has_verdict)) return;
  state.Close();
  if (state.training()) return Push({.kind = Task::kFinishClock, .clock = clock});
  finished_ = true;  // the last clock: nothing but a test
  changed_.SignalAll();
}

void Pipeline::OnVerdict(int64_t clock, std::optional<int64_t> stop_at) {
  MutexLock lock(&mutex_);
  verdict_ = std::max(verdict_, clock);
  if (stop_at) stop_at_ = stop_at_ ? std::min(*stop_at_, *stop_at) : *stop_at;
  OpenClock();
  for (const auto& [under_way, state] : clocks_) Progress(under_way);
  KeepTime();
}

void Pipeline::OnBoundaryReady() {
  MutexLock lock(&mutex_);
  OpenClock();
  KeepTime();
}

void Pipeline::Abort() {
  MutexLock lock(&mutex_);
  finished_ = true;
  KeepTime();
  changed_.SignalAll();
}

// --- Tasks

void Pipeline::Push(const Task& task) {
  ready_.Push(task);
  changed_.Signal();
}

std::optional<Task> Pipeline::TakeTask() {
  std::optional<Task> task;
  if (!finished_ && !ready_.empty()) task = ready_.Take(plan_.updates_together);
  idle_ = !task;
  if (task) ++under_way_;
  KeepTime();
  return task;
}

std::optional<Task> Pipeline::TryNextTask() {
  MutexLock lock(&mutex_);
  return TakeTask();
}

std::optional<Task> Pipeline::NextTask() {
  MutexLock lock(&mutex_);
  for (;;) {
    const std::optional<Task> task = TakeTask();
    if (task || finished_) return task;
    changed_.Wait(&mutex_);
  }
}

void Pipeline::Done(const Task& task) {
  MutexLock lock(&mutex_);
  Finish(task);
  --under_way_;
  KeepTime();
}

void Pipeline::Finish(const Task& task) {
  switch (task.kind) {
    case Task::kBoundary:
      return FinishBoundary(task.clock);
    case Task::kForward:
      return FinishForward(task);
    case Task::kBackward:
      return FinishBackward(task);
    case Task::kWeightGradient:
      return FinishWeightGradient(task);
    case Task::kPull:
      return;  // OnValues follows
    case Task::kNorm:
      clocks_.at(task.clock).OnNorm();
      return Progress(task.clock);
    case Task::kUpdate:
      clocks_.at(task.clock).OnUpdated(1 + static_cast<int>(task.more_groups.size()));
      return Progress(task.clock);
    case Task::kFinishClock:
      clocks_.erase(task.clock);
      iteration_ = task.clock + 1;
      return OpenClock();
  }
}

void Pipeline::FinishForward(const Task& task) {
  Flight* const flight = flights_.Find(task.id);
  flights_.FinishForward(flight, task.segment);
  if (flight->computed()) OnComputed(task.id);
  Advance(flight);
  FreeIfDone(task.id);
}

void Pipeline::FinishBackward(const Task& task) {
  Flight* const flight = flights_.Find(task.id);
  flights_.FinishBackward(flight, task.segment);
  for (int u = 0; u < static_cast<int>(plan_.groups.size()); ++u) {
    const ParamGroupPlan& group = plan_.groups[u];
    if (plan_.phase(task.id).groups[u] == task.segment && !group.at_once()) clocks_.at(task.clock).OnAdded(u);
  }
  Push(flights_.TakeWeightGradients());
  if (plan_.ordered_backward) Push(flights_.TakeTasks());  // the next in order may go
  if (flight->computed()) OnComputed(task.id);
  Progress(task.clock);
  Advance(flight);
  FreeIfDone(task.id);
}

void Pipeline::FinishWeightGradient(const Task& task) {
  ClockState& state = clocks_.at(task.clock);
  if (task.id.bits == 0) {
    state.OnDeferredGradient(task.group);
    return Progress(task.clock);
  }
  flights_.Find(task.id)->weights[task.group] = Flight::kWeightsDone;
  state.OnAdded(task.group);
  Progress(task.clock);
  FreeIfDone(task.id);
}

void Pipeline::OnComputed(MsgId id) {
  clocks_.at(id.clock()).OnComputed(id);
  Progress(id.clock());
}

// --- Flights

// Rule [bind-next]: the next id of the node's own list, as soon as a solver is free. Nobody is asked: all smaller ids
// are bound, so the smallest unfinished one can be finished, whatever the pools.
void Pipeline::BindMore() {
  for (auto& [clock, state] : clocks_) {
    while (!free_solvers_.empty()) {
      const std::optional<MsgId> id = state.TakeId();
      if (!id) break;
      const int solver = *free_solvers_.begin();
      free_solvers_.erase(free_solvers_.begin());
      Advance(flights_.Bind(*id, solver));
    }
  }
}

void Pipeline::Advance(Flight* flight) {
  if (const std::optional<Task> task = flights_.TakeTask(flight)) Push(*task);
}

void Pipeline::FreeIfDone(MsgId id) {
  const std::optional<int> solver = flights_.FreeIfDone(id);
  if (!solver) return;
  free_solvers_.insert(*solver);
  clocks_.at(id.clock()).OnFreed();
  BindMore();
  Progress(id.clock());
}

// --- Events

void Pipeline::OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) {
  MutexLock lock(&mutex_);
  flights_.OnGranted(peer, tag, grant, bytes);
  KeepTime();
}

void Pipeline::OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) {
  MutexLock lock(&mutex_);
  Flight* const flight = flights_.OnGrantEnded(peer, tag, status);
  if (!status.ok()) return;
  Advance(flight);
  FreeIfDone(flight->id);
  KeepTime();
}

void Pipeline::OnWriteEnded(Rank, const PlaceTag& tag, const Status&) {
  MutexLock lock(&mutex_);
  FreeIfDone(flights_.OnWriteEnded(tag)->id);
  KeepTime();
}

void Pipeline::OnExchanged(int64_t clock, int stage, int group) {
  MutexLock lock(&mutex_);
  const auto state = clocks_.find(clock);
  if (state == clocks_.end() || !state->second.open()) {  // the replicas may be ahead of their server
    CHECK(plan_.groups.at(group).exchange == GroupExchange::kServe && clock >= iteration_)
        << "finished an exchange of clock " << clock << " in clock " << iteration_;
    early_[clock].emplace_back(stage, group);
    return;
  }
  state->second.OnExchanged(stage, group);
  Progress(clock);
  KeepTime();
}

void Pipeline::OnValues(int64_t clock, int stage, int group) {
  MutexLock lock(&mutex_);
  clocks_.at(clock).OnValues(stage, group);
  Progress(clock);
  KeepTime();
}

void Pipeline::OnInputs() {
  MutexLock lock(&mutex_);
  Push(flights_.TakeTasks());
  KeepTime();
}

// --- Time

// Only where no task is ready or under way.
Wait Pipeline::Lacking() const {
  if (const std::optional<Wait> wait = flights_.Lacking()) return *wait;
  const auto state = clocks_.find(iteration_);
  if (state == clocks_.end()) return AwaitsVerdict() ? Wait::kVerdict : Wait::kSnapshot;
  if (state->second.AwaitsExchange()) return Wait::kExchange;
  return flights_.HeldBy().value_or(Wait::kVerdict);
}

// After whatever may have changed what there is to compute.
void Pipeline::KeepTime() {
  const int64_t now_ns = clock_->NowNs();
  std::optional<EndedWait> ended;
  if (under_way_ > 0) {
    ended = times_.Compute(now_ns);
  } else if (!idle_ || finished_ || !ready_.empty()) {
    ended = times_.Rest(now_ns);
  } else {
    ended = times_.Await(now_ns, Lacking());
  }
  if (ended) host_->Waited(ended->wait, ended->begin_ns, now_ns);
}

std::string Pipeline::Describe() const {
  MutexLock lock(&mutex_);
  const auto state = clocks_.find(iteration_);
  const size_t bound = state == clocks_.end() ? 0 : state->second.bound();
  const size_t ids = state == clocks_.end() ? 0 : state->second.ids();
  return Format("clock %lld, verdict of %lld, %zu of %zu ids bound", static_cast<long long>(iteration_),
                static_cast<long long>(verdict_), bound, ids) +
         flights_.Describe();
}

}  // namespace hp
