#include "test/unit/scheduler/hand_driven.h"

#include "base/format.h"
#include "transport/partial_transport.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace hp::test {
namespace {

std::vector<int> GroupsOf(const Task& task) {
  std::vector<int> groups = {task.group};
  groups.insert(groups.end(), task.more_groups.begin(), task.more_groups.end());
  return groups;
}

}  // namespace

/// What the pipeline of one node posts to.
class HandDriven::LinkTransport : public PartialTransport {
 public:
  LinkTransport(HandDriven* world, Rank self) : world_(world), self_(self) {}

  hp::Status Grant(Rank peer, const PlaceTag& tag, std::span<std::byte> place) override {
    if (!world_->granted_.insert({self_, peer, tag}).second) {
      world_->faults_.push_back(Format("node %d granted port %u of %llx twice", self_, tag.channel,
                                       static_cast<unsigned long long>(tag.msg_id)));
    }
    world_->grants_.push_back({self_, peer, tag, place});
    const auto index = static_cast<uint32_t>(world_->grants_.size() - 1);
    world_->Post(self_, peer, kControl, {.kind = Event::kGranted, .from = self_, .tag = tag, .grant = index});
    return OkStatus();
  }
  hp::Status Write(Rank peer, const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override {
    HandDriven::Grant& open = world_->grants_.at(grant.index);
    if (open.used || open.tag != tag || open.owner != peer || open.writer != self_ ||
        open.place.size() != source.size()) {
      world_->faults_.push_back(Format("node %d wrote port %u without a grant", self_, tag.channel));
      return InvalidArgument("no such grant");
    }
    open.used = true;
    const std::vector<std::byte> bytes(source.begin(), source.end());
    Event event{.kind = Event::kArrival, .from = self_, .tag = tag, .grant = grant.index, .bytes = bytes};
    world_->Post(self_, peer, kBulk, event);
    event.kind = Event::kWriteEnded;
    event.from = peer;
    event.source = source;
    world_->Post(peer, self_, kCompletion, event);
    return OkStatus();
  }

 private:
  HandDriven* const world_;
  const Rank self_;
};

HandDriven::HandDriven(const JobSpec& job, unsigned seed) : job_(job), random_(seed), nodes_(job.nodes()) {
  for (Rank rank = 0; rank < job.nodes(); ++rank) {
    Node& node = nodes_[rank];
    node.checked = std::make_unique<CheckedNode>(job, rank);
    node.transport = std::make_unique<LinkTransport>(this, rank);
    node.pipeline = std::make_unique<Pipeline>(node.checked->plan(), node.checked->schedule(), node.checked.get(),
                                               node.transport.get());
    node.speed = AnySpeed();
    node.input_speed = AnySpeed();
  }
}

HandDriven::~HandDriven() = default;

double HandDriven::AnySpeed() { return std::pow(10, std::uniform_real_distribution<double>(0, 2)(random_)); }

// Mostly the first.
size_t HandDriven::AnyWrite(size_t count) { return random_() % 3 != 0 ? 0 : random_() % count; }

void HandDriven::Post(Rank from, Rank to, Lane lane, Event event) {
  const auto [queue, first] = queues_.try_emplace({from, to, lane});
  if (first) queue->second.speed = AnySpeed();
  queue->second.events.push_back(std::move(event));
}

std::vector<std::string> HandDriven::Run() {
  for (Node& node : nodes_) node.pipeline->Start();
  while (Step()) {
  }
  if (!Finished()) {
    for (Rank rank = 0; rank < job_.nodes(); ++rank) {
      faults_.push_back(Format("stuck: node %d: %s", rank, nodes_[rank].pipeline->Describe().c_str()));
    }
    return faults_;
  }
  for (Rank rank = 0; rank < job_.nodes(); ++rank) {
    for (const std::string& fault : nodes_[rank].checked->Faults()) {
      faults_.push_back(Format("node %d: %s", rank, fault.c_str()));
    }
  }
  for (const auto& grant : grants_) {
    if (!grant.used) faults_.push_back(Format("a grant of node %d was never used", grant.owner));
  }
  return faults_;
}

bool HandDriven::Finished() const {
  return std::all_of(nodes_.begin(), nodes_.end(), [](const Node& node) { return node.pipeline->finished(); });
}

// Everything that may happen next draws a time; they are tried in that order until one can be done.
bool HandDriven::Step() {
  using Key = std::tuple<Rank, Rank, Lane>;
  std::vector<std::tuple<double, int, Rank, Key>> choices;
  for (auto& [key, queue] : queues_) {
    if (!queue.events.empty()) choices.push_back({Draw(queue.speed), 0, std::get<1>(key), key});
  }
  for (Rank rank = 0; rank < job_.nodes(); ++rank) {
    choices.push_back({Draw(nodes_[rank].speed), 1, rank, {}});
    choices.push_back({Draw(nodes_[rank].input_speed), 2, rank, {}});
  }
  std::sort(choices.begin(), choices.end());
  for (const auto& [time, kind, rank, key] : choices) {
    if (kind == 1) {
      if (Execute(rank)) return true;
    } else if (kind == 2) {
      if (!nodes_[rank].checked->TakeInput()) continue;
      nodes_[rank].pipeline->OnInputs();
      return true;
    } else {
      Queue& queue = queues_.at(key);
      const auto chosen = queue.events.begin() + (std::get<Lane>(key) == kBulk ? AnyWrite(queue.events.size()) : 0);
      const Event event = std::move(*chosen);
      queue.events.erase(chosen);
      Deliver(rank, event);
      return true;
    }
  }
  return false;
}

// An urgent task in between the layers of another one every other time.
bool HandDriven::TakeTask(Node* node) {
  const bool between = !node->tasks.empty();
  if (between && (node->tasks.size() > 1 || node->tasks[0].run)) return false;
  if (between && (!node->pipeline->MayInterrupt(node->tasks[0].task) || random_() % 2 == 0)) return false;
  const std::optional<Task> task = between ? node->pipeline->TryUrgentTask() : node->pipeline->TryNextTask();
  if (!task) return false;
  if (!task->more_groups.empty()) ++shared_updates_;
  if (between) ++interrupts_;
  node->tasks.push_back({*task});
  return true;
}

// An executor takes a task, runs the one it has, or reports it.
bool HandDriven::Execute(Rank rank) {
  if (job_.enqueues) return ExecuteAhead(rank);
  Node& node = nodes_[rank];
  if (TakeTask(&node)) return true;
  if (node.tasks.empty()) return false;
  const Task task = node.tasks.back().task;
  if (!std::exchange(node.tasks.back().run, true)) {
    Enqueue(rank, task);
    Complete(rank, task);
    return true;
  }
  node.tasks.pop_back();
  node.pipeline->Done(task);
  return true;
}

// The same with several tasks: it takes one, as an executor of a device does, or is done with the first.
bool HandDriven::ExecuteAhead(Rank rank) {
  constexpr size_t kAhead = 5;
  Node& node = nodes_[rank];
  const bool takes = node.tasks.size() < kAhead && (node.tasks.empty() || random_() % 3 != 0);
  if (const std::optional<Task> task = takes ? node.pipeline->TryNextTask() : std::nullopt) {
    if (!node.tasks.empty()) ++followers_[task->kind];
    Enqueue(rank, *task);
    if (task->kind == Task::kBoundary) {
      Complete(rank, *task);
      node.pipeline->Done(*task);
    } else {
      node.pipeline->Enqueued(*task);
      node.tasks.push_back({*task, true});
    }
    return true;
  }
  if (node.tasks.empty()) return false;
  const Task task = node.tasks.front().task;
  node.tasks.erase(node.tasks.begin());
  Complete(rank, task);
  node.pipeline->Done(task);
  return true;
}

// What a task gives away from within it.
void HandDriven::Enqueue(Rank rank, const Task& task) {
  nodes_[rank].checked->Enqueue(task);
  Exchange(rank, task);
}

void HandDriven::Complete(Rank rank, const Task& task) {
  if (nodes_[rank].checked->Complete(task)) {
    Post(rank, 0, kControl, {.kind = Event::kReport, .from = rank, .clock = task.clock});
  }
  const int served = job_.stages[job_.stage_of(rank)].served;
  if (task.kind == Task::kPull) {
    for (Rank server : job_.ranks_of(served)) {
      Post(rank, server, kControl, {.kind = Event::kPulled, .from = rank, .clock = task.clock, .group = task.group});
    }
  } else if (task.kind == Task::kUpdate && job_.stages[job_.stage_of(rank)].server()) {
    for (int group : GroupsOf(task)) {
      updated_.insert({task.clock, group, rank});
      for (Rank replica : job_.ranks_of(served)) Serve(rank, replica, task.clock, group);
    }
  }
}

// What a task gives to its stage's exchange is a sum, and each replica hears of it, after the last of them gave it.
void HandDriven::Exchange(Rank rank, const Task& task) {
  const int stage = job_.stage_of(rank), served = job_.stages[stage].served;
  for (int group : nodes_[rank].checked->GivenToExchange(task)) {
    if (served >= 0) {
      Push(rank, task.clock, group);
      continue;
    }
    if (++exchanges_[{task.clock, stage, group}] < job_.stages[stage].parts) continue;
    for (Rank replica : job_.ranks_of(stage)) {
      Post(rank, replica, kExchange, {.kind = Event::kExchanged, .from = rank, .clock = task.clock, .group = group});
    }
  }
}

// To all servers of the stage; a server's last one has all of the stage's replicas.
void HandDriven::Push(Rank rank, int64_t clock, int group) {
  for (Rank server : job_.ranks_of(job_.stages[job_.stage_of(rank)].served)) {
    Post(rank, server, kExchange, {.kind = Event::kPushed, .from = rank, .clock = clock, .group = group});
  }
  Post(rank, rank, kExchange, {.kind = Event::kExchanged, .from = rank, .clock = clock, .group = group});
}

void HandDriven::Serve(Rank server, Rank replica, int64_t clock, int group) {
  if (!updated_.contains({clock, group, server}) || !pulled_.contains({clock, group, server, replica})) return;
  Post(server, replica, kExchange, {.kind = Event::kValues, .from = server, .clock = clock, .group = group});
}

void HandDriven::Deliver(Rank to, const Event& event) {
  Node& node = nodes_[to];
  switch (event.kind) {
    case Event::kGranted:
      return node.pipeline->OnGranted(event.from, event.tag, {event.grant, 0}, grants_[event.grant].place.size());
    case Event::kArrival:
      ++writes_;
      std::copy(event.bytes.begin(), event.bytes.end(), grants_[event.grant].place.begin());
      return node.pipeline->OnGrantEnded(event.from, event.tag, OkStatus());
    case Event::kWriteEnded:
      if (!std::equal(event.bytes.begin(), event.bytes.end(), event.source.begin())) {
        faults_.push_back(Format("node %d changed the source of a write that was under way", to));
      }
      return node.pipeline->OnWriteEnded(event.from, event.tag, OkStatus());
    case Event::kExchanged:
      early_exchanges_ += std::any_of(node.tasks.begin(), node.tasks.end(), [](const UnderWay& under_way) {
        return under_way.run && under_way.task.kind == Task::kBackward;
      });
      node.checked->OnExchanged(event.clock, event.group);
      return node.pipeline->OnExchanged(event.clock, job_.stage_of(to), event.group);
    case Event::kPushed:
      if (++pushed_[{event.clock, event.group, to}] < job_.stages[job_.stage_of(event.from)].parts) return;
      node.checked->OnExchanged(event.clock, event.group);
      return node.pipeline->OnExchanged(event.clock, job_.stage_of(to), event.group);
    case Event::kPulled:
      pulled_.insert({event.clock, event.group, to, event.from});
      return Serve(to, event.from, event.clock, event.group);
    case Event::kValues:
      if (++came_[{event.clock, event.group, to}] < job_.stages[job_.stage_of(event.from)].parts) return;
      node.checked->OnValues(event.clock, event.group);
      return node.pipeline->OnValues(event.clock, job_.stage_of(to), event.group);
    case Event::kReport:
      return OnReport(event.clock);
    case Event::kVerdict: {
      node.checked->OnVerdict(event.clock);
      std::optional<int64_t> stop_at;
      if (job_.stop_after == event.clock) stop_at = event.clock + job_.staleness + 2;
      return node.pipeline->OnVerdict(event.clock, stop_at);
    }
  }
}

void HandDriven::OnReport(int64_t clock) {
  if (++reports_[clock] < job_.nodes()) return;
  for (Rank rank = 0; rank < job_.nodes(); ++rank) {
    Post(0, rank, kControl, {.kind = Event::kVerdict, .from = 0, .clock = clock});
  }
}

}  // namespace hp::test
