// An id is bound to one solver for all its segments. At once every place that others will write is granted: the peer
// may be slower or faster, and a grant for an id that it has not bound yet waits there. So nothing arrives that was not
// granted, nobody asks, and the round trip hides behind the work before. In the other direction a tensor that is final
// before its place is granted waits in `unposted`. The solver is free when its work is done and all its grants and
// writes have ended: earlier, a late write would land in the next id's memory, or a retransmission send it.
//
// A device that queues its work carries tasks out in the order in which they are enqueued. So a task that needs nothing
// but earlier tasks of this node is handed out when these have passed (Flight), and what others see of a task, tensors
// that leave and the end of the flight, waits until it is done.
//
// Two kinds of work go in the order of ids, because they add to gradients that all ids share, and float sums depend on
// their order: backward passes that add weight gradients (data-parallel stages), and weight gradients that are tasks.
#include "scheduler/pipeline/flights.h"

#include "base/format.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {

// --- Binding

int Flights::unsent() const {
  int tensors = 0;
  for (const auto& [id, flight] : flights_) tensors += flight.open_writes + static_cast<int>(flight.unposted.size());
  return tensors;
}

Flight* Flights::Bind(MsgId id, int solver, int64_t version) {
  Flight& flight = flights_[id];
  flight.id = id;
  flight.solver = solver;
  flight.version = version;
  flight.segments = plan_->phase(id).segments;
  flight.weights.assign(plan_->groups.size(), Flight::kNoWeights);
  for (size_t u = 0; u < plan_->groups.size(); ++u) {
    const bool due = id.train() && plan_->groups[u].at_once() && plan_->phase(id).groups[u].first >= 0;
    if (due) flight.weights[u] = Flight::kWeightsDue;
  }
  GrantPlaces(&flight);
  return &flight;
}

// Rule [grant-at-bind]: every place of the id, once.
void Flights::GrantPlaces(Flight* flight) {
  const PhasePlan& plan = plan_->phase(flight->id);
  flight->missing.assign(plan.segments, 0);
  flight->missing_gradients.assign(plan.segments, 0);
  for (size_t i = 0; i < plan.ports.size(); ++i) {
    const PortPlan& port = plan.ports[i];
    if (!port.landing) continue;
    ++(port.gradient ? flight->missing_gradients : flight->missing)[port.segment];
    ++flight->open_grants;
    const Rank peer = plan_->PeerOf(port, flight->id);
    const std::span<std::byte> place = host_->Place(flight->solver, flight->id, static_cast<int>(i));
    const Status status = transport_->Grant(peer, {flight->id.bits, port.channel}, place);
    if (!status.ok()) LOG(WARNING) << "grant to node " << peer << ": " << status;
  }
}

Flight* Flights::Find(MsgId id) {
  const auto found = flights_.find(id);
  return found == flights_.end() ? nullptr : &found->second;
}

bool Flights::Uses(int solver) const {
  return std::any_of(flights_.begin(), flights_.end(),
                     [solver](const auto& entry) { return entry.second.solver == solver; });
}

bool Flights::HasWeightsDue(const Flight& flight) {
  return std::find(flight.weights.begin(), flight.weights.end(), Flight::kWeightsDue) != flight.weights.end();
}

std::optional<int> Flights::ReleaseIfPassed(MsgId id) {
  Flight& flight = flights_.at(id);
  if (!flight.computed() || flight.ahead > 0 || HasWeightsDue(flight)) return std::nullopt;
  CHECK(!flight.released && flight.open_grants == 0 && flight.unposted.empty());
  flight.released = true;
  return flight.solver;
}

// Rule [release]: work, writes and grants of the id have ended, and nothing of it waits to be written.
std::optional<Flights::FreedSolver> Flights::FreeIfDone(MsgId id) {
  const Flight& flight = flights_.at(id);
  if (!flight.computed() || flight.open_tasks > 0 || HasWeightsDue(flight)) return std::nullopt;
  if (flight.open_grants > 0 || flight.open_writes > 0 || !flight.unposted.empty()) return std::nullopt;
  const FreedSolver freed{flight.solver, flight.released};
  flights_.erase(id);
  host_->Freed(freed.solver, id);
  return freed;
}

// --- Order of work

std::optional<Task> Flights::TakeTask(Flight* flight) {
  if (flight->running) return std::nullopt;
  Task task{.id = flight->id, .solver = flight->solver, .clock = flight->id.clock(), .version = flight->version};
  if (flight->next_forward < flight->segments) {
    const int segment = flight->next_forward;
    if (flight->missing[segment] > 0) return std::nullopt;
    const bool lacks_inputs = !host_->InputsReady(flight->id, segment);
    lack_inputs_ += lacks_inputs - flight->lacks_inputs;
    flight->lacks_inputs = lacks_inputs;
    if (lacks_inputs) return std::nullopt;
    task.kind = Task::kForward;
    task.segment = segment;
  } else if (flight->next_backward >= 0) {
    if (flight->missing_gradients[flight->next_backward] > 0 || !BackwardIsInOrder(*flight)) return std::nullopt;
    task.kind = Task::kBackward;
    task.segment = flight->next_backward;
  } else {
    return std::nullopt;
  }
  flight->running = true;
  ++flight->ahead;
  ++flight->open_tasks;
  const std::vector<bool>& urgent = plan_->phase(flight->id).urgent;
  task.urgent = !urgent.empty() && urgent[static_cast<size_t>(task.segment)];
  return task;
}

std::vector<Task> Flights::TakeTasks() {
  std::vector<Task> tasks;
  for (auto& [id, flight] : flights_) {
    if (const std::optional<Task> task = TakeTask(&flight)) tasks.push_back(*task);
  }
  return tasks;
}

// By what is added: a later id may be further up. It adds to a group's gradient when all that an earlier one adds, in
// several segments where layers share parameters, is there. Rule [one-gradient]: and one of a later clock waits until
// the sum of this one has been used.
bool Flights::BackwardIsInOrder(const Flight& flight) const {
  for (int u = 0; u < static_cast<int>(plan_->groups.size()); ++u) {
    if (!plan_->groups[u].in_backward || !plan_->phase(flight.id).groups[u].Has(flight.next_backward)) continue;
    if (!IsReleased(u, flight.id.clock())) return false;
    for (auto other = flights_.begin(); other->first != flight.id; ++other) {
      const int segment = other->first.train() ? plan_->phase(other->first).groups[u].first : -1;
      if (segment < 0) continue;
      const bool forward = other->second.next_forward < other->second.segments;
      if (forward || other->second.next_backward >= segment) return false;
    }
  }
  return true;
}

// Rule [add-in-order]: a micro-batch's goes out only behind those of all earlier ones. (There is one executor, and it
// takes the smaller id first.) So it looks only behind the last that went out: a shard may have bound thousands.
std::vector<Task> Flights::TakeWeightGradients() {
  std::vector<Task> tasks;
  for (int u = 0; u < static_cast<int>(plan_->groups.size()); ++u) {
    for (auto next = flights_.upper_bound(weights_taken_[u]); next != flights_.end(); ++next) {
      const MsgId id = next->first;
      Flight& flight = next->second;
      Flight::WeightState& state = flight.weights[u];
      if (state == Flight::kNoWeights) continue;
      const int segment = plan_->phase(id).groups[u].first;
      if (flight.next_forward < flight.segments || flight.next_backward >= segment) break;  // not final yet
      if (!IsReleased(u, id.clock())) break;
      state = Flight::kWeightsPushed;
      ++flight.ahead;
      ++flight.open_tasks;
      weights_taken_[u] = id;
      tasks.push_back({.kind = Task::kWeightGradient,
                       .id = id,
                       .solver = flight.solver,
                       .segment = segment,
                       .group = u,
                       .clock = id.clock(),
                       .version = flight.version});
    }
  }
  return tasks;
}

int Flights::NextBackward(MsgId id, int below) const {
  const PhasePlan& plan = plan_->phase(id);
  for (int segment = below - 1; segment >= 0; --segment) {
    if (id.train() && plan.backward[segment]) return segment;
  }
  return -1;
}

void Flights::PassForward(Flight* flight) {
  flight->running = false;
  --flight->ahead;
  ++flight->next_forward;
  if (flight->next_forward == flight->segments) flight->next_backward = NextBackward(flight->id, flight->segments);
}

void Flights::PassBackward(Flight* flight, int segment) {
  flight->running = false;
  --flight->ahead;
  flight->next_backward = NextBackward(flight->id, segment);
}

void Flights::FinishForward(Flight* flight, int segment) {
  --flight->open_tasks;
  WriteFinal(flight, segment, false);
}

void Flights::FinishBackward(Flight* flight, int segment) {
  --flight->open_tasks;
  WriteFinal(flight, segment, true);
}

// A flight whose tensors its reader has no room for waits for that, whatever it waits for besides: nothing can come
// back before. Where one waits for its turn, an earlier one tells why.
std::optional<Wait> Flights::Lacking() const {
  if (lack_inputs_ > 0) return Wait::kInput;
  for (const auto& [id, flight] : flights_) {
    if (flight.computed()) continue;
    if (!flight.unposted.empty()) return Wait::kGrants;
    if (flight.next_forward < flight.segments) return Wait::kActivations;
    // It has all that it adds, and the sums of an earlier clock are still in use.
    return flight.missing_gradients[flight.next_backward] > 0 ? Wait::kGradients : Wait::kExchange;
  }
  return std::nullopt;
}

std::optional<Wait> Flights::HeldBy() const {
  std::optional<Wait> wait;
  for (const auto& [id, flight] : flights_) {
    if (!flight.unposted.empty()) return Wait::kGrants;
    wait = Wait::kSends;
  }
  return wait;
}

// --- Places

void Flights::WriteFinal(Flight* flight, int segment, bool gradient) {
  const PhasePlan& plan = plan_->phase(flight->id);
  for (size_t i = 0; i < plan.ports.size(); ++i) {
    const PortPlan& port = plan.ports[i];
    if (port.landing || port.gradient != gradient || port.segment != segment) continue;
    flight->unposted.insert(static_cast<int>(i));
    PostIfGranted(flight, static_cast<int>(i));
  }
}

// Rule [write-granted]: what is final, as soon as its grant is there, and not before.
void Flights::PostIfGranted(Flight* flight, int index) {
  const PortPlan& port = plan_->phase(flight->id).ports[index];
  const Rank peer = plan_->PeerOf(port, flight->id);
  const PlaceTag tag{flight->id.bits, port.channel};
  const auto stored = grants_.find({peer, tag});
  if (stored == grants_.end()) return;
  const std::span<std::byte> source = host_->Place(flight->solver, flight->id, index);
  CHECK_EQ(stored->second.bytes, source.size()) << "port " << port.channel << " of message " << flight->id.bits;
  const Status status = transport_->Write(peer, tag, stored->second.grant, source);
  grants_.erase(stored);
  flight->unposted.erase(index);
  if (status.ok()) {
    ++flight->open_writes;
    if (flight->id.train()) payload_[peer].sent += std::ssize(source);
  } else {
    LOG(WARNING) << "write to node " << peer << ": " << status;
  }
}

int Flights::FindPort(MsgId id, uint32_t number, bool landing, Rank peer) const {
  const PhasePlan& plan = plan_->phase(id);
  for (size_t i = 0; i < plan.ports.size(); ++i) {
    const PortPlan& port = plan.ports[i];
    if (port.channel == number && port.landing == landing && plan_->PeerOf(port, id) == peer)
      return static_cast<int>(i);
  }
  return -1;
}

// Rule [keep-grant]: until the id is bound and the tensor is final.
void Flights::OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) {
  grants_[{peer, tag}] = {grant, bytes};
  Flight* const flight = Find(MsgId{tag.msg_id});
  if (flight == nullptr) return;
  const int port = FindPort(flight->id, tag.channel, false, peer);
  if (port >= 0 && flight->unposted.contains(port)) PostIfGranted(flight, port);
}

Flight* Flights::OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) {
  Flight* const flight = Find(MsgId{tag.msg_id});
  CHECK(flight != nullptr) << "grant of message " << tag.msg_id << " ended after its solver was free";
  const int port = FindPort(flight->id, tag.channel, true, peer);
  CHECK_GE(port, 0) << "port " << tag.channel << " from node " << peer;
  --flight->open_grants;
  if (!status.ok()) return flight;  // the peer is lost; the job's end is decided elsewhere
  if (flight->id.train()) payload_[peer].received += std::ssize(host_->Place(flight->solver, flight->id, port));
  const PortPlan& plan = plan_->phase(flight->id).ports[port];
  --(plan.gradient ? flight->missing_gradients : flight->missing)[plan.segment];
  return flight;
}

Flight* Flights::OnWriteEnded(const PlaceTag& tag) {
  Flight* const flight = Find(MsgId{tag.msg_id});
  CHECK(flight != nullptr) << "write of message " << tag.msg_id << " ended after its solver was free";
  --flight->open_writes;
  return flight;
}

std::string Flights::Describe() const {
  std::string text;
  for (const auto& [id, flight] : flights_) {
    text += Format("; %s micro %lld of replica %d: forward %d, backward %d, %d grants and %d writes open, %zu unposted",
                   id.train() ? "train" : "test", static_cast<long long>(id.micro()), id.replica(), flight.next_forward,
                   flight.next_backward, flight.open_grants, flight.open_writes, flight.unposted.size());
  }
  return text;
}

}  // namespace hp
