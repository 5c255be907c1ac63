// Every event takes the lock, changes the state of a flight (flights.h) or of a clock (clock_state.h), and puts what
// can be computed now into `ready_`, which the executor empties in the order of work. Nothing is handed out before all
// that it needs is there, so no task waits, neither for this node nor for another: with a fixed list of tasks a node
// that waits in one of them could keep a peer from what it waits for. A clock goes: boundary -> its ids are bound as
// solvers get free -> norms and updates as gradients become final -> finished -> the next clock opens.
//
// With staleness s, clock t opens when the updates before version t - s are done, beside up to s others. Their ids have
// solvers of their own and read an older version; what they would share is a group's gradient, which is one clock's at
// a time (ReleaseGradient), and so the updates of a group go in the order of clocks, and clocks end in it.
//
// A task "passes" when what needs no more than its place in the device's queue may be handed out: when it is enqueued
// there, or (on the host's device) done. What a task gives to others waits until it is done, so each task is taken
// twice, by Pass and by Finish. Which task may follow one that is enqueued and not done:
//   - a pass of the same micro-batch, a weight gradient, a deferred gradient, a norm, an update: they work in the
//     device's memory alone, by its compute queue;
//   - the next id in the same solver, and the next clock, where the node has no ports: else a grant would let a peer
//     write where tasks that are not done read;
//   - not the boundary of a clock with a snapshot, a pull or a test (BoundaryNeedsDone).
// And what waits until a task is done: writes to peers, the verdict (from a norm's sum or the end of the clock), the
// end of a flight, which gives its images back to the reader, and the end of the job. With staleness values are copied
// by the host, and parameter servers write them from outside: there every task passes when it is done.
#include "scheduler/pipeline/pipeline.h"

#include "base/format.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {
namespace {

bool HasUrgent(const PipelinePlan& plan) {
  return std::any_of(plan.phases[0].begin(), plan.phases[0].end(), [](const PhasePlan& phase) {
    return std::find(phase.urgent.begin(), phase.urgent.end(), true) != phase.urgent.end();
  });
}

bool HasPorts(const PipelinePlan& plan) {
  return std::any_of(plan.phases.begin(), plan.phases.end(), [](const std::vector<PhasePlan>& variants) {
    return std::any_of(variants.begin(), variants.end(), [](const PhasePlan& phase) { return !phase.ports.empty(); });
  });
}

bool HasServers(const PipelinePlan& plan) {
  return std::any_of(plan.groups.begin(), plan.groups.end(), [](const ParamGroupPlan& group) {
    return group.exchange == GroupExchange::kPush || group.exchange == GroupExchange::kServe;
  });
}

}  // namespace

Pipeline::Pipeline(const PipelinePlan& plan, const class Schedule& schedule, PipelineHost* host, Transport* transport,
                   const Clock* clock)
    : plan_(plan),
      schedule_(schedule),
      has_urgent_(HasUrgent(plan)),
      has_ports_(HasPorts(plan)),
      follows_enqueued_(plan.staleness == 0 && !HasServers(plan)),
      host_(host),
      clock_(clock),
      flights_(&plan_, host, transport),
      next_clock_(plan.start_clock),
      next_to_pass_(plan.start_clock),
      own_version_(plan.start_clock),
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
  OpenClocks();
}

// --- Clocks

int64_t Pipeline::last_clock() const {
  const int64_t last = schedule_.shape().max_iter;
  return stop_at_ ? std::min(last, *stop_at_) : last;
}

void Pipeline::OpenClocks() {
  while (OpenClock()) {
  }
}

// Rule [version]: a clock opens when its version is there, or will be when its tasks have their turn, which its ids
// compute with: that of `staleness` updates ago, but not one before the latest clock with a version of its own. So it
// follows from the table and from the verdicts alone. Rule [after-verdict]: and when the verdict of the clock before
// the last that may be open has arrived, and the host has room for what its boundary does, now that the one before has
// taken its own; the last one of all waits for every verdict, so that a job ends only with good numbers.
bool Pipeline::OpenClock() {
  if (!started_ || finished_ || next_clock_ > last_clock() || AwaitsVerdict()) return false;
  const bool others = !clocks_.empty() && clocks_.rbegin()->first >= next_to_pass_;  // that have not passed
  if (others && !clocks_.rbegin()->second.open()) return false;
  const bool own = next_clock_ == last_clock() || host_->NeedsOwnVersion(next_clock_);
  const int64_t version = std::max(own ? next_clock_ : own_version_, next_clock_ - plan_.staleness);
  if (next_to_pass_ < version) return false;
  if (first_clock() < next_to_pass_ && host_->BoundaryNeedsDone(next_clock_)) return false;
  if (!host_->BoundaryReady(next_clock_)) return false;
  if (own) own_version_ = next_clock_;
  clocks_.emplace(next_clock_, ClockState(&plan_, next_clock_, version));
  Push({.kind = Task::kBoundary, .clock = next_clock_, .version = version});
  ++next_clock_;
  return true;
}

bool Pipeline::AwaitsVerdict() const {
  return verdict_ < next_clock_ - (next_clock_ == last_clock() ? 1 : plan_.staleness + 2);
}

void Pipeline::FinishBoundary(int64_t clock) {
  if (stop_at_ && clock >= *stop_at_) {
    clocks_.at(clock).Open({}, {}, false);
  } else {
    ClockState& state = clocks_.at(clock);
    state.Open(schedule_.TestIds(clock, plan_.share), schedule_.TrainIds(clock, plan_.share),
               clock < schedule_.shape().max_iter);
    TakeEarly();
  }
  BindMore();
  Progress(clock);
  OpenClocks();
}

// Something of the clock is done: hands out the updates that may begin now, or its end if it is the first.
void Pipeline::Progress(int64_t clock) {
  ClockState& state = clocks_.at(clock);
  const bool has_verdict = verdict_ >= clock;
  ClockState::Done before;
  for (auto& [under_way, other] : clocks_) {  // later ones may have waited for this one
    if (under_way >= clock) Push(other.TakeDue(verdict_ >= under_way, before));
    const ClockState::Done done = other.done();
    before = {before.tests && done.tests, before.norms && done.norms};
  }
  if (clock != next_to_pass_ || !state.Finished(has_verdict)) return;
  if (!state.training() && flights_.size() > 0) return;  // its tests have passed, and are not done
  state.Close();
  if (state.training()) return Push({.kind = Task::kFinishClock, .clock = clock});
  finished_ = true;  // the last clock: nothing but a test
  changed_.SignalAll();
}

void Pipeline::OnVerdict(int64_t clock, std::optional<int64_t> stop_at) {
  MutexLock lock(&mutex_);
  verdict_ = std::max(verdict_, clock);
  if (stop_at) stop_at_ = stop_at_ ? std::min(*stop_at_, *stop_at) : *stop_at;
  OpenClocks();
  for (const auto& [under_way, state] : clocks_) Progress(under_way);
  KeepTime();
}

void Pipeline::OnBoundaryReady() {
  MutexLock lock(&mutex_);
  OpenClocks();
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

std::optional<Task> Pipeline::TryUrgentTask() {
  MutexLock lock(&mutex_);
  if (!ready_.urgent()) return std::nullopt;
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

void Pipeline::Enqueued(const Task& task) {
  MutexLock lock(&mutex_);
  if (!follows_enqueued_) return;
  CHECK(enqueued_.insert(task).second) << hp::Describe(task) << " enqueued twice";
  Pass(task);
  if (!has_ports_ && task.solver >= 0) ReleaseIfPassed(task.id);
  if (!has_ports_ && task.kind == Task::kFinishClock) PassClock(task.clock);
  KeepTime();
}

void Pipeline::Done(const Task& task) {
  MutexLock lock(&mutex_);
  if (enqueued_.erase(task) == 0) Pass(task);
  Finish(task);
  --under_way_;
  KeepTime();
}

void Pipeline::Pass(const Task& task) {
  switch (task.kind) {
    case Task::kForward:
      return PassForward(task);
    case Task::kBackward:
      return PassBackward(task);
    case Task::kWeightGradient:
      return PassWeightGradient(task);
    case Task::kUpdate:
      clocks_.at(task.clock).OnUpdated(1 + static_cast<int>(task.more_groups.size()));
      ReleaseGradients({task.group});
      ReleaseGradients(task.more_groups);
      return Progress(task.clock);
    case Task::kBoundary:
    case Task::kPull:
    case Task::kNorm:
    case Task::kFinishClock:
      return;  // what follows them waits until they are done; but for the end of a clock: Enqueued
  }
}

void Pipeline::Finish(const Task& task) {
  switch (task.kind) {
    case Task::kBoundary:
      return FinishBoundary(task.clock);
    case Task::kForward:
      flights_.FinishForward(flights_.Find(task.id), task.segment);
      return FreeIfDone(task.id);
    case Task::kBackward:
      flights_.FinishBackward(flights_.Find(task.id), task.segment);
      return FreeIfDone(task.id);
    case Task::kWeightGradient:
      if (task.id.bits == 0) return;
      flights_.FinishWeightGradient(flights_.Find(task.id));
      return FreeIfDone(task.id);
    case Task::kPull:  // OnValues follows
    case Task::kUpdate:
      return;
    case Task::kNorm:
      clocks_.at(task.clock).OnNorm();
      return Progress(task.clock);
    case Task::kFinishClock:
      clocks_.erase(task.clock);
      if (next_to_pass_ <= task.clock) return PassClock(task.clock);
      return OpenClocks();  // a boundary may have waited until this clock is done
  }
}

void Pipeline::PassClock(int64_t clock) {
  next_to_pass_ = clock + 1;
  OpenClocks();
  if (clocks_.contains(next_to_pass_)) Progress(next_to_pass_);
}

void Pipeline::ReleaseGradients(const std::vector<int>& groups) {
  for (const int group : groups) flights_.ReleaseGradient(group);
  if (plan_.staleness == 0) return;  // nobody waits
  TakeEarly();
  Push(flights_.TakeWeightGradients());
  if (plan_.ordered_backward) Push(flights_.TakeTasks());
}

void Pipeline::TakeEarly() {
  for (auto& [clock, groups] : early_) {
    const auto state = clocks_.find(clock);
    if (state == clocks_.end() || !state->second.open()) continue;
    EarlyGroups left;
    for (const auto& [stage, group] : groups) {
      if (flights_.IsReleased(group, clock)) {
        state->second.OnExchanged(stage, group);
      } else {
        left.emplace_back(stage, group);
      }
    }
    groups = std::move(left);
    Progress(clock);
  }
  std::erase_if(early_, [](const auto& entry) { return entry.second.empty(); });
}

void Pipeline::PassForward(const Task& task) {
  Flight* const flight = flights_.Find(task.id);
  flights_.PassForward(flight);
  if (flight->computed()) OnComputed(task.id);
  Advance(flight);
}

void Pipeline::PassBackward(const Task& task) {
  Flight* const flight = flights_.Find(task.id);
  flights_.PassBackward(flight, task.segment);
  for (int u = 0; u < static_cast<int>(plan_.groups.size()); ++u) {
    const ParamGroupPlan& group = plan_.groups[u];
    if (plan_.phase(task.id).groups[u].first == task.segment && !group.at_once()) clocks_.at(task.clock).OnAdded(u);
  }
  Push(flights_.TakeWeightGradients());
  if (plan_.ordered_backward) Push(flights_.TakeTasks());  // the next in order may go
  if (flight->computed()) OnComputed(task.id);
  Progress(task.clock);
  Advance(flight);
}

void Pipeline::PassWeightGradient(const Task& task) {
  ClockState& state = clocks_.at(task.clock);
  if (task.id.bits == 0) {
    state.OnDeferredGradient(task.group);
    return Progress(task.clock);
  }
  flights_.PassWeightGradient(flights_.Find(task.id));
  state.OnAdded(task.group);
  Progress(task.clock);
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
    while (!free_solvers_.empty() || !released_solvers_.empty()) {
      const std::optional<MsgId> id = state.TakeId();
      if (!id) break;
      Advance(flights_.Bind(*id, TakeSolver(), state.version()));
    }
  }
}

// One that nobody uses, if there is one: copies into it need not wait for the device's work before.
int Pipeline::TakeSolver() {
  if (!free_solvers_.empty()) return free_solvers_.extract(free_solvers_.begin()).value();
  const int solver = released_solvers_.front();
  released_solvers_.erase(released_solvers_.begin());
  return solver;
}

void Pipeline::Advance(Flight* flight) {
  if (const std::optional<Task> task = flights_.TakeTask(flight)) Push(*task);
}

void Pipeline::ReleaseIfPassed(MsgId id) {
  const std::optional<int> solver = flights_.ReleaseIfPassed(id);
  if (!solver) return;
  released_solvers_.push_back(*solver);
  OnFreed(id);
}

void Pipeline::FreeIfDone(MsgId id) {
  const std::optional<Flights::FreedSolver> freed = flights_.FreeIfDone(id);
  if (!freed) return;
  if (!freed->released) {
    free_solvers_.insert(freed->solver);
    return OnFreed(id);
  }
  if (!flights_.Uses(freed->solver) && std::erase(released_solvers_, freed->solver) > 0) {
    free_solvers_.insert(freed->solver);
  }
  Progress(id.clock());
}

void Pipeline::OnFreed(MsgId id) {
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
  if (plan_.groups.at(group).exchange == GroupExchange::kServe) {  // the replicas may be ahead of their server
    CHECK_GE(clock, first_clock()) << "gradients of group " << group << " came behind their clock";
    early_[clock].emplace_back(stage, group);
    TakeEarly();
    return KeepTime();
  }
  const auto state = clocks_.find(clock);
  CHECK(state != clocks_.end()) << "finished an exchange of clock " << clock << " ahead of clock " << next_clock_;
  state->second.OnExchanged(stage, group);
  if (plan_.groups[group].exchange == GroupExchange::kPush) ReleaseGradients({group});
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
  if (clocks_.empty()) return AwaitsVerdict() ? Wait::kVerdict : Wait::kSnapshot;
  if (clocks_.begin()->second.AwaitsExchange()) return Wait::kExchange;
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
  std::string text =
      Format("clock %lld, verdict of %lld", static_cast<long long>(first_clock()), static_cast<long long>(verdict_));
  for (const auto& [clock, state] : clocks_) {
    text += Format("%s%zu of %zu ids bound", clock == first_clock() ? ", " : ", then ", state.bound(), state.ids());
  }
  return text + flights_.Describe();
}

}  // namespace hp
