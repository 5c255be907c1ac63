// One queue of events, in the order of simulated time. What happens at one moment reaches all nodes before any executor
// takes a task, so that the order in which simultaneous events are handled decides nothing. A tensor goes: a node's
// pipeline binds an id and grants (kGranted at the writer, one latency later) -> the writer's task is done and its
// pipeline writes -> the network's frames -> kArrived -> the reader's pipeline hands out the next task.
#include "scheduler/simulator/simulation.h"

#include "scheduler/pipeline/trace_names.h"
#include "scheduler/simulator/simulated_node.h"
#include "scheduler/simulator/simulated_rings.h"
#include "scheduler/simulator/simulated_servers.h"
#include "scheduler/simulator/simulation_trace.h"

#include "glog/logging.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace hp {
namespace {

class Simulation : private SimulatedNodeEvents {
 public:
  Simulation(const SimulatedJob& job, const TaskTimes& times, const SimulationOptions& options);

  StatusOr<SimulationResult> Run();

 private:
  struct Grant {
    Rank owner = 0, writer = 0;
    PlaceTag tag = {};
    int64_t bytes = 0;
  };
  /// A tensor that crosses, or a flow of a ring or between replicas and servers.
  struct Message {
    Rank from = 0, to = 0;
    PlaceTag tag = {};
    int64_t bytes = 0;
    int ring = -1, served = -1;
    int64_t flow = 0;  // of a ring: collective
    int ends = 0;      // of two, sent and arrived: what has happened
  };
  /// What the nodes have done of a clock.
  struct ClockEnds {
    int reports = 0, finished = 0;
  };
  /// Where a group of a node goes: a ring or servers and the place in its order, and the micro-batch that completes it.
  struct Exchanged {
    int ring = -1, served = -1;
    int replica = 0, place = 0;
    int64_t last_turn = 0;
  };
  /// A group of a server.
  struct ServedGroup {
    int served = 0, place = 0, piece = 0;
  };

  void MakeRings();
  void MakeServers();
  void AddExchanged(Rank rank, int group, Exchanged entry);
  void Exchange(Rank rank, const Task& task);
  void Handle(const SimulatedEvent& event);
  void ExecuteAll();
  void Touch(Rank rank);
  void Report(Rank rank, int64_t clock);
  void SendControl(Rank from, Rank to, const SimulatedEvent& arrival);
  void FinishClock(Rank rank, int64_t clock);
  void Conclude();
  int32_t NewMessage(const Message& message);
  void Send(Rank from, Rank to, int32_t message, int64_t bytes);
  bool CrossesWire(Rank from, Rank to) const;
  void EndOne(int32_t message);
  std::string NameOf(const Message& message) const;
  SimulatedNetwork::FrameSink FrameSink();

  // SimulatedNodeEvents
  void OnGrant(Rank owner, Rank writer, const PlaceTag& tag, int64_t bytes) override;
  void OnWrite(Rank from, Rank to, const PlaceTag& tag, uint32_t grant, int64_t bytes) override;
  void OnTask(Rank rank, const Task& task) override;
  void OnPiece(Rank rank, const Task& task, int64_t begin_ns, int64_t end_ns) override;
  void OnWaited(Rank rank, Wait wait, int64_t begin_ns) override;
  void OnTaskDone(Rank rank, const Task& task, int64_t begin_ns) override;

  const SimulatedJob& job_;
  const TaskTimes& times_;
  const SimulationOptions options_;
  const Schedule schedule_;
  EventQueue queue_;
  const SimulatedClock clock_;
  SimulatedNetwork network_;
  const AddressRange places_;
  std::vector<std::unique_ptr<SimulatedNode>> nodes_;
  std::vector<SimulatedRing> rings_;
  std::vector<SimulatedServers> servers_;
  std::vector<std::map<int, Exchanged>> exchanged_;        // by rank and group
  std::vector<std::map<int, ServedGroup>> served_groups_;  // likewise, of servers
  /// By rank and id, of the backward task that is under way: when after its begin a group's gradient is final.
  std::map<std::pair<Rank, uint64_t>, std::set<std::pair<int64_t, int>>> finals_;
  std::vector<bool> touched_;  // by rank: its executor may have work
  std::vector<Rank> to_execute_;
  std::vector<Grant> grants_;
  std::vector<uint32_t> free_grants_;
  std::vector<Message> messages_;
  std::vector<int32_t> free_messages_;
  std::map<int64_t, ClockEnds> clocks_;
  int64_t counted_since_ns_ = 0, messages_sent_ = 0;
  SimulationResult result_;
};

size_t LargestPlace(const SimulatedJob& job, const Schedule& schedule) {
  int64_t row_bytes = 0;
  for (const SimulatedJob::Node& node : job.nodes) {
    for (const std::vector<PhasePlan>& variants : node.plan.phases) {
      for (const PhasePlan& phase : variants) {
        for (const PortPlan& port : phase.ports) row_bytes = std::max(row_bytes, port.row_bytes);
      }
    }
  }
  int64_t rows = 0;
  for (const Phase phase : PhasesWith(schedule.tests())) rows = std::max(rows, schedule.RowCounts(phase).back());
  return static_cast<size_t>(row_bytes * rows);
}

Simulation::Simulation(const SimulatedJob& job, const TaskTimes& times, const SimulationOptions& options)
    : job_(job),
      times_(times),
      options_(options),
      schedule_(job.shape),
      clock_(&queue_),
      network_(&job_, &queue_, FrameSink()),
      places_(LargestPlace(job, schedule_)),
      exchanged_(job.nodes.size()),
      served_groups_(job.nodes.size()),
      touched_(job.nodes.size()) {
  SimulatedNodeEvents* const events = this;
  for (Rank rank = 0; rank < static_cast<Rank>(job_.nodes.size()); ++rank) {
    nodes_.push_back(
        std::make_unique<SimulatedNode>(rank, job_.nodes[rank].plan, schedule_, &clock_, &times_, &places_, events));
  }
  MakeRings();
  MakeServers();
  result_.samples = schedule_.update_rows();
  result_.nodes.resize(nodes_.size());
}

void Simulation::MakeRings() {
  for (int index = 0; index < static_cast<int>(job_.exchanges.size()); ++index) {
    const SimulatedExchange& exchange = job_.exchanges[index];
    for (size_t replica = 0; replica < exchange.ranks.size(); ++replica) {
      for (int place = 0; place < static_cast<int>(exchange.groups[replica].size()); ++place) {
        AddExchanged(exchange.ranks[replica], exchange.groups[replica][place], {.ring = index, .place = place});
      }
    }
    rings_.emplace_back(
        index, &exchange, &network_, &queue_,
        SimulatedRing::Events{[this, index](Rank from, Rank to, int64_t collective, int64_t bytes) {
                                const int32_t message = NewMessage(
                                    {.from = from, .to = to, .bytes = bytes, .ring = index, .flow = collective});
                                Send(from, to, message, bytes);
                              },
                              [this, index](int64_t clock, int place) {
                                const SimulatedExchange& of = job_.exchanges[index];
                                for (size_t r = 0; r < of.ranks.size(); ++r) {
                                  nodes_[of.ranks[r]]->OnExchanged(clock, of.stage, of.groups[r][place]);
                                  Touch(of.ranks[r]);
                                }
                              }});
  }
}

void Simulation::AddExchanged(Rank rank, int group, Exchanged entry) {
  const PipelinePlan& plan = job_.nodes[rank].plan;
  for (const MsgId id : schedule_.TrainIds(0, plan.share)) {
    if (plan.phase(id).groups[group].first >= 0) entry.last_turn = TurnOf(id, plan.replicas);
  }
  exchanged_[rank][group] = entry;
}

void Simulation::MakeServers() {
  for (int index = 0; index < static_cast<int>(job_.served.size()); ++index) {
    const SimulatedServed& served = job_.served[index];
    for (int place = 0; place < static_cast<int>(served.pieces.size()); ++place) {
      for (int replica = 0; replica < static_cast<int>(served.ranks.size()); ++replica) {
        AddExchanged(served.ranks[replica], served.groups[replica][place],
                     {.served = index, .replica = replica, .place = place});
      }
      for (int piece = 0; piece < static_cast<int>(served.pieces[place].size()); ++piece) {
        const SimulatedServed::Piece& on = served.pieces[place][piece];
        served_groups_[served.servers[on.server]][on.group] = {index, place, piece};
      }
    }
    SimulatedServers::Events events;
    events.send = [this, index](Rank from, Rank to, int64_t flow, int64_t bytes) {
      Send(from, to, NewMessage({.from = from, .to = to, .bytes = bytes, .served = index, .flow = flow}), bytes);
    };
    events.control = [this](Rank from, Rank to, const SimulatedEvent& event) { SendControl(from, to, event); };
    events.exchanged = [this](Rank rank, int64_t clock, int stage, int group) {
      nodes_[rank]->OnExchanged(clock, stage, group);
      Touch(rank);
    };
    events.values = [this](Rank rank, int64_t clock, int stage, int group) {
      nodes_[rank]->OnValues(clock, stage, group);
      Touch(rank);
    };
    servers_.emplace_back(index, &served, std::move(events));
  }
}

// --- Time

StatusOr<SimulationResult> Simulation::Run() {
  for (Rank rank = 0; rank < static_cast<Rank>(nodes_.size()); ++rank) {
    nodes_[rank]->Start();
    Touch(rank);
  }
  ExecuteAll();
  while (!queue_.empty()) {
    const int64_t ns = queue_.next_ns();
    while (!queue_.empty() && queue_.next_ns() == ns) Handle(queue_.Take());
    ExecuteAll();
  }
  for (Rank rank = 0; rank < static_cast<Rank>(nodes_.size()); ++rank) {
    if (nodes_[rank]->finished()) continue;
    return InternalError("the simulated job does not end: node \"%s\" waits: %s", job_.nodes[rank].name.c_str(),
                         nodes_[rank]->Describe().c_str());
  }
  result_.events = queue_.count();
  return std::move(result_);
}

void Simulation::Touch(Rank rank) {
  if (touched_[rank]) return;
  touched_[rank] = true;
  to_execute_.push_back(rank);
}

void Simulation::ExecuteAll() {
  std::sort(to_execute_.begin(), to_execute_.end());
  for (const Rank rank : std::exchange(to_execute_, {})) {
    touched_[rank] = false;
    nodes_[rank]->Execute();
  }
}

void Simulation::Handle(const SimulatedEvent& event) {
  switch (event.kind) {
    case SimulatedEvent::kFrameSent:
    case SimulatedEvent::kConnectionReady:
      return network_.Handle(event);
    case SimulatedEvent::kSent: {
      const Message message = messages_[event.a];
      EndOne(event.a);
      if (message.ring >= 0) return;
      if (message.served >= 0) return servers_[message.served].OnSent(message.flow);
      nodes_[message.from]->OnSent(message.to, message.tag);
      return Touch(message.from);
    }
    case SimulatedEvent::kArrived: {
      const Message message = messages_[event.a];
      EndOne(event.a);
      nodes_[message.to]->CountReceived(message.bytes, CrossesWire(message.from, message.to));
      if (message.ring >= 0) return rings_[message.ring].OnArrived(message.flow);
      if (message.served >= 0) return servers_[message.served].OnArrived(message.flow);
      nodes_[message.to]->OnArrived(message.from, message.tag);
      return Touch(message.to);
    }
    case SimulatedEvent::kTaskDone:
      nodes_[event.a]->OnPieceDone();
      return Touch(event.a);
    case SimulatedEvent::kGradientFinal: {
      const Exchanged& exchanged = exchanged_[event.a].at(static_cast<int>(event.b & 0xffff'ffff));
      const int64_t clock = event.b >> 32;
      if (exchanged.ring >= 0) return rings_[exchanged.ring].Add(clock, exchanged.place);
      return servers_[exchanged.served].Push(clock, exchanged.replica, exchanged.place);
    }
    case SimulatedEvent::kPulled:
      return servers_[event.a].OnPulled(event.b);
    case SimulatedEvent::kGranted: {
      const Grant& grant = grants_[event.a];
      nodes_[grant.writer]->OnGranted(grant.owner, grant.tag, static_cast<uint32_t>(event.a), grant.bytes);
      return Touch(grant.writer);
    }
    case SimulatedEvent::kReport: {
      if (++clocks_[event.b].reports < static_cast<int>(nodes_.size())) return;
      for (Rank rank = 0; rank < static_cast<Rank>(nodes_.size()); ++rank) {
        SendControl(0, rank, {SimulatedEvent::kVerdict, rank, event.b});
      }
      return;
    }
    case SimulatedEvent::kVerdict:
      nodes_[event.a]->OnVerdict(event.b);
      return Touch(event.a);
    case SimulatedEvent::kSummed:
      return rings_[event.a].OnSummed(event.b);
  }
}

// --- What nodes do

void Simulation::OnGrant(Rank owner, Rank writer, const PlaceTag& tag, int64_t bytes) {
  if (free_grants_.empty()) {
    free_grants_.push_back(static_cast<uint32_t>(grants_.size()));
    grants_.emplace_back();
  }
  const uint32_t number = free_grants_.back();
  free_grants_.pop_back();
  grants_[number] = {owner, writer, tag, bytes};
  network_.SendControl(owner, writer, {SimulatedEvent::kGranted, static_cast<int32_t>(number), 0});
}

void Simulation::OnWrite(Rank from, Rank to, const PlaceTag& tag, uint32_t grant, int64_t bytes) {
  CHECK(grants_[grant].tag == tag && grants_[grant].owner == to && grants_[grant].writer == from);
  free_grants_.push_back(grant);
  ++messages_sent_;
  const int32_t message = NewMessage({.from = from, .to = to, .tag = tag, .bytes = bytes});
  Send(from, to, message, bytes);
}

bool Simulation::CrossesWire(Rank from, Rank to) const { return job_.nodes[from].host != job_.nodes[to].host; }

void Simulation::Send(Rank from, Rank to, int32_t message, int64_t bytes) {
  nodes_[from]->CountSent(bytes, CrossesWire(from, to));
  network_.Send(from, to, message, bytes);
}

int32_t Simulation::NewMessage(const Message& message) {
  if (free_messages_.empty()) {
    free_messages_.push_back(static_cast<int32_t>(messages_.size()));
    messages_.emplace_back();
  }
  const int32_t number = free_messages_.back();
  free_messages_.pop_back();
  messages_[number] = message;
  return number;
}

void Simulation::EndOne(int32_t message) {
  if (++messages_[message].ends == 2) free_messages_.push_back(message);
}

void Simulation::OnTask(Rank rank, const Task& task) {
  if (task.kind != Task::kBackward) return;
  const PipelinePlan& plan = job_.nodes[rank].plan;
  for (const auto& [group, exchanged] : exchanged_[rank]) {
    if (TurnOf(task.id, plan.replicas) != exchanged.last_turn) continue;
    if (plan.phase(task.id).groups[group].first != task.segment) continue;
    const int64_t ns = std::clamp<int64_t>(times_.GradientNs(rank, task, group), 0, times_.NsOf(rank, task));
    finals_[{rank, task.id.bits}].emplace(ns, group);
  }
}

void Simulation::OnPiece(Rank rank, const Task& task, int64_t begin_ns, int64_t end_ns) {
  const int64_t now_ns = queue_.now_ns();
  const auto finals = finals_.find({rank, task.id.bits});
  if (finals != finals_.end() && task.kind == Task::kBackward) {
    auto& gradients = finals->second;
    while (!gradients.empty() && gradients.begin()->first <= end_ns) {
      const auto [final_ns, group] = *gradients.begin();
      gradients.erase(gradients.begin());
      queue_.At(now_ns + final_ns - begin_ns, {SimulatedEvent::kGradientFinal, rank, task.clock << 32 | group});
    }
    if (gradients.empty()) finals_.erase(finals);
  }
  if (end_ns > begin_ns) queue_.At(now_ns + end_ns - begin_ns, {SimulatedEvent::kTaskDone, rank, 0});
}

void Simulation::OnWaited(Rank rank, Wait wait, int64_t begin_ns) {
  if (options_.trace != nullptr) options_.trace->AddWait(rank, wait, begin_ns, queue_.now_ns() - begin_ns);
}

// What a pull or a server's update tells others.
void Simulation::Exchange(Rank rank, const Task& task) {
  if (task.kind == Task::kPull) {
    const Exchanged& entry = exchanged_[rank].at(task.group);
    return servers_[entry.served].Pull(task.clock, entry.replica, entry.place);
  }
  const auto served = served_groups_[rank].find(task.group);
  if (task.kind != Task::kUpdate || served == served_groups_[rank].end()) return;
  servers_[served->second.served].OnUpdated(task.clock, served->second.place, served->second.piece);
}

void Simulation::OnTaskDone(Rank rank, const Task& task, int64_t begin_ns) {
  if (options_.trace != nullptr) options_.trace->AddTask(rank, task, begin_ns, queue_.now_ns() - begin_ns);
  Exchange(rank, task);
  const bool waits = job_.nodes[rank].plan.wait_for_verdict;
  if (task.kind == (waits ? Task::kNorm : Task::kFinishClock)) Report(rank, task.clock);
  if (task.kind == Task::kFinishClock) FinishClock(rank, task.clock);
}

void Simulation::Report(Rank rank, int64_t clock) { SendControl(rank, 0, {SimulatedEvent::kReport, rank, clock}); }

void Simulation::SendControl(Rank from, Rank to, const SimulatedEvent& arrival) {
  if (from == to) return queue_.At(queue_.now_ns(), arrival);
  network_.SendControl(from, to, arrival);
}

// --- Counting

// Each node counts between its own ends of clocks: all of its part of a clock lies between two of them.
void Simulation::FinishClock(Rank rank, int64_t clock) {
  const bool last = clock == schedule_.shape().max_iter - 1;
  if (clock == options_.warm_up - 1) nodes_[rank]->ResetUse();
  if (last) result_.nodes[rank] = nodes_[rank]->Use();
  if (++clocks_[clock].finished < static_cast<int>(nodes_.size())) return;
  clocks_.erase(clock - 2 -
                job_.nodes[rank].plan.staleness);  // all its reports have come: this clock began behind its verdict
  if (clock == options_.warm_up - 1) counted_since_ns_ = queue_.now_ns();
  if (last) Conclude();
}

void Simulation::Conclude() {
  result_.clocks = schedule_.shape().max_iter - options_.warm_up;
  result_.ns = queue_.now_ns() - counted_since_ns_;
  result_.messages = messages_sent_;
  result_.links.resize(job_.hosts.size());
  for (size_t rank = 0; rank < nodes_.size(); ++rank) {
    SimulationResult::LinkUse& link = result_.links[job_.nodes[rank].host];
    link.out_bytes += result_.nodes[rank].wire_out_bytes;
    link.in_bytes += result_.nodes[rank].wire_in_bytes;
  }
  for (int host = 0; host < static_cast<int>(job_.hosts.size()); ++host) {
    result_.links[host].most_queued_bytes = network_.MostQueued(host);
  }
}

std::string Simulation::NameOf(const Message& message) const {
  const std::string &from = job_.nodes[message.from].name, &to = job_.nodes[message.to].name;
  if (message.served >= 0) {
    const SimulatedServers& servers = servers_[message.served];
    return TraceNameOfExchange(job_.served[message.served].stage, servers.ClockOf(message.flow),
                               servers.PlaceOf(message.flow), from, to);
  }
  if (message.ring < 0) return TraceNameOfTensor(message.tag, from, to);
  const int64_t of_clock = std::ssize(job_.exchanges[message.ring].collectives);
  return TraceNameOfExchange(job_.exchanges[message.ring].stage, message.flow / of_clock, message.flow % of_clock, from,
                             to);
}

SimulatedNetwork::FrameSink Simulation::FrameSink() {
  if (options_.trace == nullptr) return nullptr;
  return [this](const SimulatedFrame& frame) {
    options_.trace->AddFrame(frame, NameOf(messages_[static_cast<size_t>(frame.message)]));
  };
}

Status CheckJob(const SimulatedJob& job, const SimulationOptions& options) {
  if (options.warm_up < 1 || options.warm_up >= job.shape.max_iter) {
    return InvalidArgument("%lld clocks of which %lld are warm-up; expected 1 at least, and fewer than all",
                           static_cast<long long>(job.shape.max_iter), static_cast<long long>(options.warm_up));
  }
  if (job.frame_bytes < 1) return InvalidArgument("frames have no bytes");
  for (const SimulatedHost& host : job.hosts) {
    if (host.bytes_per_s > 0 && host.memory_bytes_per_s > 0 && host.latency_ns >= 0 && host.local_latency_ns >= 0)
      continue;
    return InvalidArgument("host \"%s\" has a link of %g bytes/s, memory of %g bytes/s; expected more than 0",
                           host.name.c_str(), host.bytes_per_s, host.memory_bytes_per_s);
  }
  return OkStatus();
}

}  // namespace

StatusOr<SimulationResult> Simulate(const SimulatedJob& job, const TaskTimes& times, const SimulationOptions& options) {
  HP_RETURN_IF_ERROR(CheckJob(job, options));
  return Simulation(job, times, options).Run();
}

}  // namespace hp
