#include "test/unit/scheduler/checked_node.h"

#include "base/format.h"
#include "base/philox.h"

#include <algorithm>
#include <utility>

namespace hp::test {
namespace {

constexpr uint64_t kNobodys = 0xDEAD;

std::string Name(MsgId id) {
  return Format("%s of clock %lld micro %lld replica %d", id.train() ? "train" : "test",
                static_cast<long long>(id.clock()), static_cast<long long>(id.micro()), id.replica());
}

}  // namespace

CheckedNode::CheckedNode(const JobSpec& job, Rank rank)
    : job_(job),
      rank_(rank),
      plan_(job.PlanOf(rank)),
      schedule_(job.shape),
      memory_(plan_.pool_size, std::vector<Mark>(plan_.phases[0][0].ports.size(), kNobodys)),
      memory_of_(plan_.groups.size()),
      last_added_(plan_.groups.size()) {
  std::vector<MsgId> inputs;
  const auto add = [&inputs](const std::vector<MsgId>& ids) { inputs.insert(inputs.end(), ids.begin(), ids.end()); };
  const int64_t late = job.late_tests ? job.staleness : 0, last = job.last_clock();
  for (int64_t clock = 0; clock <= last + late; ++clock) {
    if (late > 0 && clock <= last) add(schedule_.TrainIds(clock, plan_.share));
    if (clock >= late) add(schedule_.TestIds(clock - late, plan_.share));
    if (late == 0) add(schedule_.TrainIds(clock, plan_.share));
  }
  inputs_ = std::move(inputs);
}

// Both ends of a port compute the same word for it.
CheckedNode::Mark CheckedNode::MarkOf(MsgId id, const PortPlan& port) const {
  const Rank peer = plan_.PeerOf(port, id);
  const Rank writer = port.landing ? peer : rank_, reader = port.landing ? rank_ : peer;
  const auto random =
      Philox4x32(id.bits, port.channel, static_cast<uint64_t>(writer) << 32 | static_cast<uint64_t>(reader));
  return uint64_t{random[0]} << 32 | random[1];
}

std::span<std::byte> CheckedNode::Place(int solver, MsgId id, int port) {
  MutexLock lock(&mutex_);
  const auto [bound, first] = bound_.emplace(solver, id);
  if (bound->second != id) faults_.push_back("solver reused: " + Name(bound->second) + " gave way to " + Name(id));
  // A test's ports are those of training without gradients.
  int index = port;
  if (!id.train()) {
    const PortPlan& wanted = plan_.phases[1][0].ports[port];
    for (size_t i = 0; i < plan_.phases[0][0].ports.size(); ++i) {
      const PortPlan& other = plan_.phases[0][0].ports[i];
      const bool same =
          other.channel == wanted.channel && other.landing == wanted.landing && other.peers == wanted.peers;
      if (same) index = static_cast<int>(i);
    }
  }
  return std::as_writable_bytes(std::span(Word(solver, index), 1));
}

// Room is taken when the boundary is carried out: whoever asks before would be promised the same.
bool CheckedNode::BoundaryReady(int64_t clock) {
  MutexLock lock(&mutex_);
  if (room_for_) faults_.push_back(Format("clock %lld asks for another's room", static_cast<long long>(clock)));
  room_for_ = clock;
  return true;
}

bool CheckedNode::InputsReady(MsgId id, int segment) {
  MutexLock lock(&mutex_);
  const bool conv = job_.stages[job_.stage_of(rank_)].conv;
  if (conv ? segment > 0 : segment + 1 < phase(id).segments) return true;  // images come first, labels are read last
  return ready_.contains(id);
}

bool CheckedNode::TakeInput() {
  MutexLock lock(&mutex_);
  if (inputs_there_ == inputs_.size()) return false;
  ready_.insert(inputs_[inputs_there_++]);
  return true;
}

void CheckedNode::Freed(int solver, MsgId id) {
  MutexLock lock(&mutex_);
  const auto bound = bound_.find(solver);
  if (bound != bound_.end() && bound->second != id) faults_.push_back("somebody else's solver freed: " + Name(id));
  if (bound != bound_.end()) bound_.erase(bound);
  std::fill(memory_[solver].begin(), memory_[solver].end(), kNobodys);
  Flight& flight = FlightOf(id);
  if (flight.freed) faults_.push_back("freed twice: " + Name(id));
  if (flight.open > 0) faults_.push_back("freed before its tasks are done: " + Name(id));
  if (flight.forward != phase(id).segments) faults_.push_back("freed before its forward pass: " + Name(id));
  if (id.train() && flight.backward != BackwardSegments()) faults_.push_back("freed before its backward: " + Name(id));
  flight.freed = true;
}

CheckedNode::Flight& CheckedNode::FlightOf(MsgId id) {
  Flight& flight = clocks_[id.clock()].flights[id];
  flight.group.resize(plan_.groups.size());
  return flight;
}

int CheckedNode::BackwardSegments() const {
  return static_cast<int>(std::count(plan_.phases[0][0].backward.begin(), plan_.phases[0][0].backward.end(), true));
}

void CheckedNode::Expect(bool condition, const std::string& what, const Task& task) {
  if (condition) return;
  faults_.push_back(Format("%s: task %d of clock %lld, %s, segment %d, group %d", what.c_str(), task.kind,
                           static_cast<long long>(task.clock), Name(task.id).c_str(), task.segment, task.group));
}

void CheckedNode::Enqueue(const Task& task) {
  MutexLock lock(&mutex_);
  if (task.kind != Task::kBoundary) {
    Expect(task.clock > finished_clock_ && task.clock <= clock_, "a task of a clock that is not under way", task);
  }
  switch (task.kind) {
    case Task::kBoundary:
      Boundary(task);
      break;
    case Task::kPull:
      Pull(task);
      break;
    case Task::kForward:
      Forward(task);
      break;
    case Task::kBackward:
      Backward(task);
      break;
    case Task::kWeightGradient:
      WeightGradient(task);
      break;
    case Task::kNorm:
      Norm(task);
      break;
    case Task::kUpdate:
      Update(task);
      break;
    case Task::kFinishClock:
      FinishClock(task);
      break;
  }
  ++open_;
  if (task.solver >= 0) ++FlightOf(task.id).open;
}

// What it reads has not been overwritten meanwhile, and what it writes is there only now.
bool CheckedNode::Complete(const Task& task) {
  MutexLock lock(&mutex_);
  --open_;
  if (task.solver >= 0) {
    --FlightOf(task.id).open;
    const bool forward = task.kind == Task::kForward;
    CheckLanded(task, forward ? task.segment : plan_.phases[0][0].segments, false);
    if (!forward) CheckLanded(task, task.segment, true);
    if (task.kind != Task::kWeightGradient) WriteMarks(task, !forward);
  }
  if (task.kind == Task::kFinishClock) CompleteClock(task);
  const bool reports = task.kind == (plan_.wait_for_verdict ? Task::kNorm : Task::kFinishClock);
  if (reports) Expect(std::exchange(reported_clock_, task.clock) == task.clock - 1, "a report out of turn", task);
  return reports;
}

// Of `staleness` updates ago, but not before the latest test; the last clock has its own.
int64_t CheckedNode::VersionOf(int64_t clock) const {
  int64_t own = clock;
  while (own > 0 && own < job_.last_clock() && !schedule_.TestsAt(own)) --own;
  return std::max(own, clock - job_.staleness);
}

void CheckedNode::Boundary(const Task& task) {
  const int64_t behind = task.clock >= job_.last_clock() ? 1 : job_.staleness + 2;
  Expect(task.clock == clock_ + 1 && room_for_ == task.clock, "a clock out of turn", task);
  room_for_.reset();
  Expect(open_ == 0 || !BoundaryNeedsDone(task.clock), "a boundary that needs tasks which are not done", task);
  Expect(task.version == VersionOf(task.clock), "a clock with another version", task);
  Expect(finished_clock_ >= task.version - 1, "a clock before its version", task);
  Expect(verdict_ >= task.clock - behind, "a clock before a verdict", task);
  if (plan_.wait_for_verdict && job_.staleness == 0) {
    Expect(verdict_ >= task.clock - 1, "a clock before the verdict of the last one", task);
  }
  clock_ = task.clock;
  clocks_[clock_].version = task.version;
}

void CheckedNode::CheckVersion(const Task& task) {
  const int64_t version = clocks_[task.clock].version;
  Expect(task.version == version, "a task with another version than its clock", task);
  for (size_t u = 0; u < plan_.groups.size(); ++u) {
    if (plan_.groups[u].segment != task.segment) continue;
    Expect(memory_of_[u].complete >= version, "values that are not there yet", task);
    Expect(memory_of_[u].written <= version + job_.staleness, "values that are being overwritten", task);
  }
}

void CheckedNode::CheckGradient(const Task& task, int group) {
  Expect(memory_of_[static_cast<size_t>(group)].gradient == task.clock, "adds to the gradient of another clock", task);
}

void CheckedNode::CheckLanded(const Task& task, int segment, bool gradients) {
  for (size_t i = 0; i < plan_.phases[0][0].ports.size(); ++i) {
    const PortPlan& port = plan_.phases[0][0].ports[i];
    if (!port.landing || port.gradient != gradients) continue;
    if (gradients ? port.segment < segment : port.segment > segment) continue;
    Expect(
        *Word(task.solver, static_cast<int>(i)) == MarkOf(task.id, port),
        Format("port %u of node %d does not hold what node %d wrote", port.channel, rank_, plan_.PeerOf(port, task.id)),
        task);
  }
}

// Writes what leaves after this segment.
void CheckedNode::WriteMarks(const Task& task, bool gradient) {
  for (size_t i = 0; i < plan_.phases[0][0].ports.size(); ++i) {
    const PortPlan& port = plan_.phases[0][0].ports[i];
    if (port.landing || port.gradient != gradient || port.segment != task.segment) continue;
    *Word(task.solver, static_cast<int>(i)) = MarkOf(task.id, port);
  }
}

// The verdict brings what the next clock computes with.
void CheckedNode::CheckBeforeVerdict(const Task& task) {
  CheckVersion(task);
  if (plan_.wait_for_verdict) Expect(verdict_ < task.clock, "computes for a clock that has its verdict", task);
}

void CheckedNode::Forward(const Task& task) {
  CheckBeforeVerdict(task);
  Flight& flight = FlightOf(task.id);
  Expect(flight.forward == task.segment && !flight.freed, "forward out of order", task);
  Expect(clocks_[task.clock].updated.empty(), "forward after an update of its clock", task);
  CheckLanded(task, task.segment, false);
  ++flight.forward;
}

void CheckedNode::Backward(const Task& task) {
  CheckBeforeVerdict(task);
  Flight& flight = FlightOf(task.id);
  int expected = -1, passed = 0;
  for (int segment = plan_.phases[0][0].segments - 1; segment >= 0 && expected < 0; --segment) {
    if (plan_.phases[0][0].backward[segment] && passed++ == flight.backward) expected = segment;
  }
  Expect(task.id.train() && flight.forward == plan_.phases[0][0].segments, "backward before forward", task);
  Expect(task.segment == expected, "backward out of order", task);
  CheckLanded(task, plan_.phases[0][0].segments, false);
  CheckLanded(task, task.segment, true);
  MsgId& last = last_backward_[task.segment];
  if (plan_.ordered_backward) Expect(last < task.id, "backward not in the order of ids", task);
  last = task.id;
  for (size_t u = 0; u < plan_.groups.size(); ++u) {
    const ParamGroupPlan& group = plan_.groups[u];
    if (group.in_backward && plan_.phases[0][0].groups[u].Has(task.segment)) {
      Expect(last_added_[u] <= task.id, "adds to a gradient behind a later id", task);
      CheckGradient(task, static_cast<int>(u));
      if (last_added_[u] != task.id && last_added_[u].bits != 0 && last_added_[u].clock() == task.clock) {
        Expect(FlightOf(last_added_[u]).group[u], "adds to a gradient before an earlier id is done with it", task);
      }
      last_added_[u] = task.id;
    }
    if (group.segment != task.segment || !(group.deferred || group.in_backward)) continue;
    flight.group[u] = true;
  }
  ++flight.backward;
}

void CheckedNode::WeightGradient(const Task& task) {
  const ParamGroupPlan& group = plan_.groups[task.group];
  CheckGradient(task, task.group);
  if (task.id.bits == 0) {
    const bool first = clocks_[task.clock].final.insert(task.group).second;
    Expect(group.deferred && plan_.wait_for_verdict && first, "a deferred gradient", task);
    CheckExchanged(task, task.group);
    for (MsgId id : Trains(task.clock)) Expect(FlightOf(id).group[task.group], "a deferred gradient too early", task);
    return;
  }
  CheckBeforeVerdict(task);
  Flight& flight = FlightOf(task.id);
  Expect(!group.deferred && !group.in_backward && !flight.group[task.group], "a gradient that is not due", task);
  Expect(last_added_[task.group] < task.id, "gradients not in the order of ids", task);
  CheckLanded(task, plan_.phases[0][0].segments, false);
  CheckLanded(task, group.segment, true);
  last_added_[task.group] = task.id;
  flight.group[task.group] = true;
}

std::vector<int> CheckedNode::GivenToExchange(const Task& task) const {
  MutexLock lock(&mutex_);
  std::vector<int> groups;
  if (task.kind != Task::kBackward || task.id != Trains(task.clock).back()) return groups;
  for (int u = static_cast<int>(plan_.groups.size()); u-- > 0;) {
    if (plan_.groups[u].exchange == GroupExchange::kNone || plan_.groups[u].segment != task.segment) continue;
    groups.push_back(u);
  }
  return groups;
}

void CheckedNode::OnExchanged(int64_t clock, int group) {
  MutexLock lock(&mutex_);
  const GroupExchange exchange = plan_.groups[group].exchange;
  const bool under_way = clock > finished_clock_ && (exchange == GroupExchange::kServe || clock <= clock_);
  if (!under_way || !clocks_[clock].exchanged.insert(group).second) {
    faults_.push_back("an exchange that nobody waits for");
  }
  if (exchange == GroupExchange::kPush) ++memory_of_[group].gradient;
}

void CheckedNode::OnValues(int64_t clock, int group) {
  MutexLock lock(&mutex_);
  Clock& state = clocks_[clock];
  if (!state.pulled.contains(group) || !state.values.insert(group).second) faults_.push_back("values out of turn");
  memory_of_[group].complete = std::max(memory_of_[group].complete, clock + 1);
}

void CheckedNode::CheckExchanged(const Task& task, int group) {
  const GroupExchange exchange = plan_.groups[group].exchange;
  const bool waits = exchange == GroupExchange::kSum || exchange == GroupExchange::kServe;
  Expect(!waits || clocks_[task.clock].exchanged.contains(group), "ahead of the other replicas' gradients", task);
}

void CheckedNode::Norm(const Task& task) {
  Clock& clock = clocks_[task.clock];
  Expect(plan_.wait_for_verdict && !clock.norm, "a norm", task);
  for (MsgId id : Trains(task.clock)) {
    Expect(FlightOf(id).forward == plan_.phases[0][0].segments, "a norm before " + Name(id), task);
    Expect(FlightOf(id).backward == BackwardSegments(), "a norm before " + Name(id), task);
    for (size_t u = 0; u < plan_.groups.size(); ++u) Expect(FlightOf(id).group[u], "a norm before " + Name(id), task);
  }
  for (size_t u = 0; u < plan_.groups.size(); ++u) {
    Expect(!plan_.groups[u].deferred || clock.final.contains(u), "a norm without a gradient", task);
    CheckExchanged(task, static_cast<int>(u));
  }
  clock.norm = true;
}

// Nothing of the clock reads the group's values any more, nor anything of an earlier one.
void CheckedNode::Pull(const Task& task) {
  Clock& clock = clocks_[task.clock];
  const bool pushes = plan_.groups[task.group].exchange == GroupExchange::kPush;
  Expect(pushes && clock.pulled.insert(task.group).second, "a pull that is not due", task);
  for (MsgId id : schedule_.TestIds(task.clock, plan_.share)) {
    Expect(FlightOf(id).forward == plan_.phases[1][0].segments, "a pull before a test", task);
  }
  for (MsgId id : Trains(task.clock)) {
    Expect(FlightOf(id).group[task.group], "a pull without the gradient of " + Name(id), task);
  }
  Expect(memory_of_[task.group].written == task.clock, "a pull out of turn", task);
  memory_of_[task.group].written = task.clock + 1;
}

void CheckedNode::Update(const Task& task) {
  std::vector<int> groups = {task.group};
  groups.insert(groups.end(), task.more_groups.begin(), task.more_groups.end());
  Expect(groups.size() == 1 || plan_.updates_together, "groups together", task);
  Clock& clock = clocks_[task.clock];
  for (int group : groups) {
    Expect(plan_.groups[group].exchange != GroupExchange::kPush, "an update that is a server's", task);
    Expect(clock.updated.insert(group).second, "updated twice", task);
    CheckExchanged(task, group);
    CheckGradient(task, group);
    GroupMemory& memory = memory_of_[group];
    Expect(memory.complete == task.clock, "an update of another version", task);
    memory.written = memory.complete = task.clock + 1;
    memory.gradient = task.clock + 1;
  }
  if (plan_.wait_for_verdict) Expect(clock.norm && verdict_ >= task.clock, "an update before the verdict", task);
  for (MsgId id : schedule_.TestIds(task.clock, plan_.share)) {
    Expect(FlightOf(id).forward == plan_.phases[1][0].segments, "an update before a test", task);
  }
  for (MsgId id : Trains(task.clock)) {
    Expect(FlightOf(id).forward == plan_.phases[0][0].segments, "an update before the forward pass of " + Name(id),
           task);
    for (int group : groups) Expect(FlightOf(id).group[group], "an update without the gradient of " + Name(id), task);
  }
}

void CheckedNode::FinishClock(const Task& task) {
  Clock& clock = clocks_[task.clock];
  Expect(task.clock == finished_clock_ + 1, "a clock that ends out of turn", task);
  for (size_t u = 0; u < plan_.groups.size(); ++u) {
    const int group = static_cast<int>(u);
    const bool pushes = plan_.groups[u].exchange == GroupExchange::kPush;
    const bool done =
        pushes ? clock.exchanged.contains(group) && clock.values.contains(group) : clock.updated.contains(group);
    Expect(done, "a clock without all updates", task);
  }
  finished_clock_ = task.clock;
}

void CheckedNode::CompleteClock(const Task& task) {
  const Clock& clock = clocks_[task.clock];
  size_t ids = 0;
  for (const auto& list : {schedule_.TestIds(task.clock, plan_.share), Trains(task.clock)}) {
    ids += list.size();
    for (MsgId id : list) Expect(FlightOf(id).freed, "a clock ended before " + Name(id), task);
  }
  const bool others = job_.staleness > 0;  // ids of later clocks may be bound
  Expect(ids == clock.flights.size() && (others || bound_.empty()), "an id that is not in the list", task);
  clocks_.erase(task.clock);
}

void CheckedNode::OnVerdict(int64_t clock) {
  MutexLock lock(&mutex_);
  verdict_ = std::max(verdict_, clock);
}

std::vector<std::string> CheckedNode::Faults() const {
  MutexLock lock(&mutex_);
  std::vector<std::string> faults = faults_;
  if (clock_ != job_.last_clock()) faults.push_back(Format("ended at clock %lld", static_cast<long long>(clock_)));
  const bool stopped = job_.stop_after && *job_.stop_after + job_.staleness + 2 <= job_.last_clock();
  const size_t tests = stopped ? 0 : schedule_.TestIds(clock_, plan_.share).size();
  const auto last = clocks_.find(clock_);
  const std::map<MsgId, Flight> flights = last == clocks_.end() ? std::map<MsgId, Flight>() : last->second.flights;
  if (flights.size() != tests || !bound_.empty()) faults.push_back("the last clock's tests");
  for (const auto& [id, flight] : flights) {
    if (!flight.freed) faults.push_back("never freed: " + Name(id));
  }
  return faults;
}

}  // namespace hp::test
