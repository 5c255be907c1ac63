#include "scheduler/pipeline/pipeline.h"

#include "base/format.h"

#include "glog/logging.h"

#include <algorithm>
#include <utility>

namespace hp {

Pipeline::Pipeline(const PipelinePlan& plan, const class Schedule& schedule, PipelineHost* host, Transport* transport,
                   const Clock* clock)
    : plan_(plan),
      schedule_(schedule),
      host_(host),
      clock_source_(clock),
      transport_(transport),
      verdict_(plan.start_clock - 1) {
  for (const UnitPlan& unit : plan_.units) CHECK(!unit.exchanged || unit.in_backward) << "exchanged, but not at once";
  for (int solver = 0; solver < plan_.pool_size; ++solver) free_solvers_.insert(solver);
  clock_ = plan_.start_clock;
}

void Pipeline::Start() {
  MutexLock lock(&mutex_);
  started_ = true;
  OpenClock();
}

// --- Clocks

// A clock opens when its version is there (the caller knows), the verdict of the clock before the last has arrived, and
// the host has room for what its boundary does; the last one of all waits for every verdict, so that a job ends only
// with good numbers.
void Pipeline::OpenClock() {
  if (!started_ || open_ || finish_pushed_ || boundary_pushed_ || finished_) return;
  const bool last = clock_ >= schedule_.shape().max_iter || (stop_at_ && clock_ >= *stop_at_);
  if (verdict_ < clock_ - (last ? 1 : 2) || !host_->BoundaryReady(clock_)) return;
  boundary_pushed_ = true;
  Push({.kind = Task::kBoundary, .clock = clock_});
}

void Pipeline::OnVerdict(int64_t clock, std::optional<int64_t> stop_at) {
  MutexLock lock(&mutex_);
  verdict_ = std::max(verdict_, clock);
  if (stop_at) stop_at_ = stop_at_ ? std::min(*stop_at_, *stop_at) : *stop_at;
  OpenClock();
  ScheduleUpdates();
}

void Pipeline::OnBoundaryReady() {
  MutexLock lock(&mutex_);
  OpenClock();
}

bool Pipeline::finished() const {
  MutexLock lock(&mutex_);
  return finished_;
}

void Pipeline::Abort() {
  MutexLock lock(&mutex_);
  finished_ = true;
  changed_.SignalAll();
}

// --- Binding

void Pipeline::BindMore() {
  while (open_ && next_ < list_.size() && !free_solvers_.empty()) {
    const int solver = *free_solvers_.begin();
    free_solvers_.erase(free_solvers_.begin());
    Bind(list_[next_++], solver);
  }
}

void Pipeline::Bind(MsgId id, int solver) {
  Flight& flight = flights_[id];
  const PhasePlan& plan = phase(id);
  flight.id = id;
  flight.solver = solver;
  flight.missing.assign(plan.segments, 0);
  flight.missing_gradients.assign(plan.segments, 0);
  flight.weights.assign(plan_.units.size(), kNoWeights);
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    const UnitPlan& unit = plan_.units[u];
    if (id.train() && !unit.deferred && !unit.in_backward) flight.weights[u] = kWeightsDue;
  }
  for (size_t i = 0; i < plan.ports.size(); ++i) {
    const PortPlan& port = plan.ports[i];
    if (!port.landing) continue;
    ++(port.gradient ? flight.missing_gradients : flight.missing)[port.segment];
    ++flight.open_grants;
    const Status status = transport_->Grant(port.peer(id), {id.bits, port.port}, host_->Place(solver, id, i));
    // The peer is lost; whoever watches the connections ends the job.
    if (!status.ok()) LOG(WARNING) << "grant to node " << port.peer(id) << ": " << status;
  }
  Advance(&flight);
}

// --- Tasks

void Pipeline::Push(const Task& task) {
  ready_.insert(task);
  changed_.Signal();
}

std::optional<Task> Pipeline::TakeTask() {
  const int64_t now_ns = clock_source_->NowNs();
  if (starved_since_ns_) input_wait_ns_ += now_ns - *starved_since_ns_;
  starved_since_ns_.reset();
  if (finished_) return std::nullopt;
  if (ready_.empty()) {
    const auto starved = [](const auto& entry) { return entry.second.lacks_inputs; };
    if (std::any_of(flights_.begin(), flights_.end(), starved)) starved_since_ns_ = now_ns;
    return std::nullopt;
  }
  Task task = *ready_.begin();
  ready_.erase(ready_.begin());
  while (plan_.updates_together && task.kind == Task::kUpdate && !ready_.empty() &&
         ready_.begin()->kind == Task::kUpdate) {
    task.more_units.push_back(ready_.begin()->unit);
    ready_.erase(ready_.begin());
  }
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

int64_t Pipeline::input_wait_ns() const {
  MutexLock lock(&mutex_);
  return input_wait_ns_;
}

// Hands out the next task of a flight if what it needs is there.
void Pipeline::Advance(Flight* flight) {
  if (flight->running) return;
  const PhasePlan& plan = phase(flight->id);
  Task task{.id = flight->id, .solver = flight->solver, .clock = flight->id.clock()};
  if (flight->next_forward < plan.segments) {
    const int segment = flight->next_forward;
    if (flight->missing[segment] > 0) return;
    flight->lacks_inputs = !host_->InputsReady(flight->id, segment);
    if (flight->lacks_inputs) return;
    task.kind = Task::kForward;
    task.segment = segment;
  } else if (flight->next_backward >= 0) {
    if (flight->missing_gradients[flight->next_backward] > 0 || !BackwardIsInOrder(*flight)) return;
    task.kind = Task::kBackward;
    task.segment = flight->next_backward;
  } else {
    return;
  }
  flight->running = true;
  Push(task);
}

void Pipeline::AdvanceAll() {
  for (auto& [id, flight] : flights_) Advance(&flight);
}

bool Pipeline::BackwardIsInOrder(const Flight& flight) const {
  if (!plan_.ordered_backward) return true;
  for (const auto& [id, other] : flights_) {
    if (id == flight.id) return true;
    if (id.train() && !other.computed(phase(id).segments)) return false;
  }
  return true;
}

void Pipeline::Done(const Task& task) {
  MutexLock lock(&mutex_);
  switch (task.kind) {
    case Task::kBoundary:
      return FinishBoundary();
    case Task::kForward:
      return FinishForward(task);
    case Task::kBackward:
      return FinishBackward(task);
    case Task::kWeightGradient:
      return FinishWeightGradient(task);
    case Task::kNorm:
      norm_done_ = true;
      return ScheduleUpdates();
    case Task::kUpdate:
      units_left_ -= 1 + static_cast<int>(task.more_units.size());
      return FinishClockIfDone();
    case Task::kFinishClock:
      finish_pushed_ = false;
      ++clock_;
      return OpenClock();
  }
}

void Pipeline::FinishBoundary() {
  boundary_pushed_ = false;
  const bool stop = stop_at_ && clock_ >= *stop_at_;
  list_ = schedule_.TestIds(clock_, plan_.replica);
  if (stop) list_.clear();
  tests_left_ = static_cast<int>(list_.size());
  const std::vector<MsgId> trains = stop ? std::vector<MsgId>() : schedule_.TrainIds(clock_, plan_.replica);
  list_.insert(list_.end(), trains.begin(), trains.end());
  next_ = 0;
  flights_left_ = static_cast<int>(list_.size());
  const int units = static_cast<int>(plan_.units.size());
  unit_.assign(units, {.missing = static_cast<int>(trains.size())});
  units_left_ = trains.empty() ? 0 : units;
  norm_pushed_ = norm_done_ = false;
  training_ = !trains.empty();
  open_ = true;
  BindMore();
  FinishClockIfDone();
}

void Pipeline::FinishForward(const Task& task) {
  Flight& flight = flights_.at(task.id);
  const PhasePlan& plan = phase(task.id);
  flight.running = false;
  ++flight.next_forward;
  WriteFinal(&flight, task.segment, false);
  if (flight.next_forward == plan.segments) {
    if (task.id.train()) {
      flight.next_backward = NextBackward(plan, plan.segments);
    } else {
      --tests_left_;
      ScheduleUpdates();
    }
    if (flight.next_backward < 0) BackwardEnded();
  }
  Advance(&flight);
  FreeIfDone(task.id);
}

int Pipeline::NextBackward(const PhasePlan& plan, int below) {
  for (int segment = below - 1; segment >= 0; --segment) {
    if (plan.backward[segment]) return segment;
  }
  return -1;
}

void Pipeline::FinishBackward(const Task& task) {
  Flight& flight = flights_.at(task.id);
  flight.running = false;
  flight.next_backward = NextBackward(phase(task.id), task.segment);
  WriteFinal(&flight, task.segment, true);
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    const UnitPlan& unit = plan_.units[u];
    if (unit.segment == task.segment && (unit.deferred || unit.in_backward)) UnitProgress(u);
  }
  PushWeights();
  if (flight.next_backward < 0) BackwardEnded();
  Advance(&flight);
  FreeIfDone(task.id);
}

void Pipeline::BackwardEnded() {
  if (plan_.ordered_backward) AdvanceAll();  // the next in order may go
  ScheduleUpdates();
}

// Weight gradients that are added at once are added in the order of ids: a micro-batch's goes out only behind those of
// all earlier ones. (There is one executor, and it takes the smaller id first.)
void Pipeline::PushWeights() {
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    for (auto& [id, flight] : flights_) {
      WeightState& state = flight.weights[u];
      if (state == kNoWeights || state >= kWeightsPushed) continue;
      const bool final = flight.next_forward == phase(id).segments && flight.next_backward < plan_.units[u].segment;
      if (!final) break;
      state = kWeightsPushed;
      Push({.kind = Task::kWeightGradient,
            .id = id,
            .solver = flight.solver,
            .segment = plan_.units[u].segment,
            .unit = static_cast<int>(u),
            .clock = clock_});
    }
  }
}

void Pipeline::FinishWeightGradient(const Task& task) {
  if (task.id.bits == 0) {
    unit_[task.unit].gradient = true;
    return ScheduleUpdates();
  }
  flights_.at(task.id).weights[task.unit] = kWeightsDone;
  UnitProgress(task.unit);
  FreeIfDone(task.id);
}

// --- Updates

void Pipeline::UnitProgress(int u) {
  Unit& unit = unit_[u];
  if (--unit.missing > 0) return;
  CHECK_EQ(unit.missing, 0) << "unit " << u;
  FinishGradientIfDone(u);
}

void Pipeline::OnExchanged(int64_t clock, int stage, int u) {
  MutexLock lock(&mutex_);
  CHECK_EQ(plan_.units.at(u).stage, stage) << "unit " << u;
  CHECK(plan_.units[u].exchanged) << "unit " << u << " was not to be exchanged";
  CHECK(clock == clock_ && training_) << "exchange of clock " << clock << " in clock " << clock_;
  CHECK(!std::exchange(unit_[u].exchanged, true)) << "unit " << u << " of clock " << clock << " exchanged twice";
  FinishGradientIfDone(u);
}

// Other nodes' parts may be in it before our own backward task is done: the exchange has it from within that task.
void Pipeline::FinishGradientIfDone(int u) {
  Unit& unit = unit_[u];
  if (unit.missing > 0 || (plan_.units[u].exchanged && !unit.exchanged)) return;
  if (plan_.units[u].deferred && plan_.wait_for_verdict) {
    Push({.kind = Task::kWeightGradient, .segment = plan_.units[u].segment, .unit = u, .clock = clock_});
    return;
  }
  unit.gradient = true;  // a deferred one is computed with the update
  ScheduleUpdates();
}

void Pipeline::ScheduleUpdates() {
  if (!open_ || !training_ || tests_left_ > 0) return;
  if (plan_.wait_for_verdict) {
    const bool all = std::all_of(unit_.begin(), unit_.end(), [](const Unit& unit) { return unit.gradient; });
    if (all && !norm_pushed_ && TrainsComputed()) {
      norm_pushed_ = true;
      Push({.kind = Task::kNorm, .clock = clock_});
    }
    if (!norm_done_ || verdict_ < clock_) return;
  }
  for (size_t u = 0; u < unit_.size(); ++u) {
    if (!unit_[u].gradient || unit_[u].pushed) continue;
    unit_[u].pushed = true;
    Push({.kind = Task::kUpdate, .segment = plan_.units[u].segment, .unit = static_cast<int>(u), .clock = clock_});
  }
  FinishClockIfDone();
}

bool Pipeline::TrainsComputed() const {
  if (next_ < list_.size()) return false;
  return std::all_of(flights_.begin(), flights_.end(), [this](const auto& entry) {
    return !entry.first.train() || entry.second.computed(phase(entry.first).segments);
  });
}

void Pipeline::FinishClockIfDone() {
  if (!open_ || flights_left_ > 0 || units_left_ > 0 || finish_pushed_) return;
  if (!training_) {  // the last clock: nothing but a test
    open_ = false;
    finished_ = true;
    changed_.SignalAll();
    return;
  }
  if (plan_.wait_for_verdict && (!norm_done_ || verdict_ < clock_)) return;
  finish_pushed_ = true;
  open_ = false;
  Push({.kind = Task::kFinishClock, .clock = clock_});
}

// --- Places

void Pipeline::WriteFinal(Flight* flight, int segment, bool gradient) {
  const PhasePlan& plan = phase(flight->id);
  for (size_t i = 0; i < plan.ports.size(); ++i) {
    const PortPlan& port = plan.ports[i];
    if (port.landing || port.gradient != gradient || port.segment != segment) continue;
    flight->unposted.insert(i);
    PostIfGranted(flight, i);
  }
}

void Pipeline::PostIfGranted(Flight* flight, int index) {
  const PortPlan& port = phase(flight->id).ports[index];
  const Rank peer = port.peer(flight->id);
  const PlaceTag tag{flight->id.bits, port.port};
  auto stored = grants_.find({peer, tag});
  if (stored == grants_.end()) return;
  const std::span<std::byte> source = host_->Place(flight->solver, flight->id, index);
  CHECK_EQ(stored->second.bytes, source.size()) << "port " << port.port << " of message " << flight->id.bits;
  const Status status = transport_->Write(peer, tag, stored->second.grant, source);
  grants_.erase(stored);
  flight->unposted.erase(index);
  if (status.ok()) {
    ++flight->open_writes;
  } else {
    LOG(WARNING) << "write to node " << peer << ": " << status;
  }
}

int Pipeline::FindPort(MsgId id, uint32_t number, bool landing, Rank peer) const {
  const PhasePlan& plan = phase(id);
  for (size_t i = 0; i < plan.ports.size(); ++i) {
    const PortPlan& port = plan.ports[i];
    if (port.port == number && port.landing == landing && port.peer(id) == peer) return static_cast<int>(i);
  }
  return -1;
}

void Pipeline::OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) {
  MutexLock lock(&mutex_);
  grants_[{peer, tag}] = {grant, bytes};
  auto flight = flights_.find(MsgId{tag.msg_id});
  if (flight == flights_.end()) return;  // kept until the id is bound and the tensor is final
  const int port = FindPort(flight->first, tag.port, false, peer);
  if (port >= 0 && flight->second.unposted.contains(port)) PostIfGranted(&flight->second, port);
}

void Pipeline::OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) {
  MutexLock lock(&mutex_);
  auto found = flights_.find(MsgId{tag.msg_id});
  CHECK(found != flights_.end()) << "grant of message " << tag.msg_id << " ended after its solver was free";
  Flight& flight = found->second;
  const int port = FindPort(flight.id, tag.port, true, peer);
  CHECK_GE(port, 0) << "port " << tag.port << " from node " << peer;
  --flight.open_grants;
  if (!status.ok()) return;  // the peer is lost; the job's end is decided elsewhere
  const PortPlan& plan = phase(flight.id).ports[port];
  --(plan.gradient ? flight.missing_gradients : flight.missing)[plan.segment];
  Advance(&flight);
  FreeIfDone(flight.id);
}

void Pipeline::OnWriteEnded(Rank, const PlaceTag& tag, const Status&) {
  MutexLock lock(&mutex_);
  auto flight = flights_.find(MsgId{tag.msg_id});
  CHECK(flight != flights_.end()) << "write of message " << tag.msg_id << " ended after its solver was free";
  --flight->second.open_writes;
  FreeIfDone(flight->first);
}

void Pipeline::OnInputs() {
  MutexLock lock(&mutex_);
  AdvanceAll();
}

void Pipeline::FreeIfDone(MsgId id) {
  auto found = flights_.find(id);
  const Flight& flight = found->second;
  if (!flight.computed(phase(id).segments) || flight.open_grants > 0 || flight.open_writes > 0) return;
  if (!flight.unposted.empty()) return;
  for (WeightState state : flight.weights) {
    if (state == kWeightsDue || state == kWeightsPushed) return;
  }
  const int solver = flight.solver;
  flights_.erase(found);
  host_->Freed(solver, id);
  free_solvers_.insert(solver);
  --flights_left_;
  BindMore();
  FinishClockIfDone();
}

std::string Pipeline::Describe() const {
  MutexLock lock(&mutex_);
  std::string text = Format("clock %lld, verdict of %lld, %zu of %zu ids bound", static_cast<long long>(clock_),
                            static_cast<long long>(verdict_), next_, list_.size());
  for (const auto& [id, flight] : flights_) {
    text += Format("; %s micro %lld of replica %d: forward %d, backward %d, %d grants and %d writes open, %zu unposted",
                   id.train() ? "train" : "test", static_cast<long long>(id.micro()), id.replica(), flight.next_forward,
                   flight.next_backward, flight.open_grants, flight.open_writes, flight.unposted.size());
  }
  return text;
}

}  // namespace hp
