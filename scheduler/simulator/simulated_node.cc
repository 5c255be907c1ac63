#include "scheduler/simulator/simulated_node.h"

#include "glog/logging.h"
#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace hp {
namespace {

int64_t* TimeOf(Task::Kind kind, NodeUse* use) {
  switch (kind) {
    case Task::kForward:
      return &use->forward_ns;
    case Task::kBackward:
      return &use->backward_ns;
    case Task::kWeightGradient:
      return &use->weights_ns;
    default:
      return &use->update_ns;
  }
}

}  // namespace

AddressRange::AddressRange(size_t bytes) : bytes_(std::max<size_t>(bytes, 1)) {
  void* const begin = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(begin != MAP_FAILED) << "no " << bytes_ << " bytes of addresses";
  begin_ = static_cast<std::byte*>(begin);
}

AddressRange::~AddressRange() { munmap(begin_, bytes_); }

/// What the pipeline posts to: grants and writes, of all that a transport does.
class SimulatedNode::Posts : public Transport {
 public:
  Posts(Rank rank, SimulatedNodeEvents* events) : rank_(rank), events_(events) {}

  Status Grant(Rank peer, const PlaceTag& tag, std::span<std::byte> place) override {
    events_->OnGrant(rank_, peer, tag, std::ssize(place));
    return OkStatus();
  }
  Status Write(Rank peer, const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) override {
    events_->OnWrite(rank_, peer, tag, grant.index, std::ssize(source));
    return OkStatus();
  }
  Status Start(TransportHandler*, HandshakePolicy*) override { return Unused(); }
  StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte>) override { return Unused(); }
  Status CancelGrant(Rank, RemoteGrant) override { return Unused(); }
  Status Send(Rank, uint32_t, std::span<const std::byte>) override { return Unused(); }
  int64_t LastHeardNs(Rank) const override { return 0; }
  void Shutdown(Rank) override {}
  void Break(Rank, const Status&) override {}
  void Defer(std::function<void()>) override {}
  void Stop() override {}

 private:
  static Status Unused() { return InternalError("a pipeline only grants and writes"); }

  const Rank rank_;
  SimulatedNodeEvents* const events_;
};

SimulatedNode::SimulatedNode(Rank rank, const PipelinePlan& plan, const class Schedule& schedule, const Clock* clock,
                             const TaskTimes* times, const AddressRange* places, SimulatedNodeEvents* events)
    : rank_(rank),
      plan_(plan),
      schedule_(schedule),
      clock_(clock),
      times_(times),
      places_(places),
      events_(events),
      posts_(std::make_unique<Posts>(rank, events)),
      pipeline_(plan, schedule, this, posts_.get(), clock) {}

SimulatedNode::~SimulatedNode() = default;

// --- The pipeline's host

std::span<std::byte> SimulatedNode::Place(int, MsgId id, int port) {
  Bound(id);
  const auto [rows, is_new] = rows_.try_emplace({TurnOf(id, plan_.replicas), id.train()});
  if (is_new) rows->second = schedule_.SamplesOfId(id).rows;
  return places_->First(static_cast<size_t>(plan_.phase(id).ports[port].row_bytes * rows->second));
}

bool SimulatedNode::InputsReady(MsgId id, int) {
  Bound(id);
  return true;
}

void SimulatedNode::Freed(int, MsgId) {
  CountPool();
  --bound_;
}

// Ids are bound in their order, and each is asked about at once.
void SimulatedNode::Bound(MsgId id) {
  if (id.bits <= last_bound_) return;
  last_bound_ = id.bits;
  CountPool();
  use_.most_solvers = std::max(use_.most_solvers, ++bound_);
}

void SimulatedNode::CountPool() {
  const int64_t now_ns = clock_->NowNs();
  use_.solver_ns += bound_ * (now_ns - std::exchange(pool_since_ns_, now_ns));
}

// --- Events

// Of what happens at one moment the end of a write counts least: another id may be bound then, and that is mostly all.
void SimulatedNode::Wakes(WaitCause cause) {
  if (cause_ && cause == WaitCause::kSolver) return;
  cause_ = cause;
  held_until_ns_ = 0;
}

void SimulatedNode::OnGranted(Rank peer, const PlaceTag& tag, uint32_t grant, int64_t bytes) {
  granting_ = true;
  pipeline_.OnGranted(peer, tag, {grant, 0}, static_cast<size_t>(bytes));
  granting_ = false;
}

void SimulatedNode::OnArrived(Rank peer, const PlaceTag& tag, int64_t posted_ns, bool held) {
  const MsgId id{tag.msg_id};
  const auto& ports = plan_.phase(id).ports;
  const bool gradient = std::any_of(ports.begin(), ports.end(), [&](const PortPlan& port) {
    return port.gradient && port.landing && port.channel == tag.channel && plan_.PeerOf(port, id) == peer;
  });
  Wakes(gradient ? WaitCause::kGradients : WaitCause::kActivations);
  if (held) held_until_ns_ = posted_ns;
  pipeline_.OnGrantEnded(peer, tag, OkStatus());
}

void SimulatedNode::OnSent(Rank peer, const PlaceTag& tag) {
  Wakes(WaitCause::kSolver);
  pipeline_.OnWriteEnded(peer, tag, OkStatus());
}

void SimulatedNode::OnExchanged(int64_t clock, int stage, int group) {
  Wakes(WaitCause::kExchange);
  pipeline_.OnExchanged(clock, stage, group);
}

void SimulatedNode::OnVerdict(int64_t clock) {
  Wakes(WaitCause::kVerdict);
  pipeline_.OnVerdict(clock, std::nullopt);
}

// --- The executor

void SimulatedNode::OnTaskDone() {
  *TimeOf(task_->kind, &use_) += clock_->NowNs() - task_begin_ns_;
  const Task task = *std::exchange(task_, std::nullopt);
  events_->OnTaskDone(rank_, task);
  pipeline_.Done(task);
}

void SimulatedNode::Execute() {
  const int64_t now_ns = clock_->NowNs();
  while (!task_) {
    task_ = pipeline_.TryNextTask();
    if (!task_) {
      if (!idle_since_ns_) idle_since_ns_ = now_ns;
      break;
    }
    if (idle_since_ns_) {
      const int64_t held_ns = std::clamp<int64_t>(held_until_ns_ - *idle_since_ns_, 0, now_ns - *idle_since_ns_);
      use_.wait_ns[static_cast<size_t>(WaitCause::kGrant)] += held_ns;
      use_.wait_ns[static_cast<size_t>(cause_.value_or(WaitCause::kSolver))] += now_ns - *idle_since_ns_ - held_ns;
      idle_since_ns_.reset();
    }
    task_begin_ns_ = now_ns;
    const int64_t ns = times_->NsOf(rank_, *task_);
    CHECK_GE(ns, 0) << hp::Describe(*task_);
    events_->OnTask(rank_, *task_, ns);
    if (ns > 0) break;
    OnTaskDone();
  }
  cause_.reset();
}

// --- Counters

void SimulatedNode::CountSent(int64_t bytes, bool wire) {
  use_.sent_bytes += bytes;
  if (wire) use_.wire_out_bytes += bytes;
}

void SimulatedNode::CountReceived(int64_t bytes, bool wire) {
  use_.received_bytes += bytes;
  if (wire) use_.wire_in_bytes += bytes;
}

void SimulatedNode::ResetUse() {
  use_ = {};
  use_.most_solvers = bound_;
  pool_since_ns_ = use_since_ns_ = clock_->NowNs();
}

NodeUse SimulatedNode::Use() const {
  NodeUse use = use_;
  const int64_t now_ns = clock_->NowNs();
  use.ns = now_ns - use_since_ns_;
  use.solver_ns += bound_ * (now_ns - pool_since_ns_);
  return use;
}

}  // namespace hp
