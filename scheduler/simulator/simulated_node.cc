#include "scheduler/simulator/simulated_node.h"

#include "transport/partial_transport.h"

#include "glog/logging.h"
#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace hp {
namespace {

int64_t* TimeOf(Task::Kind kind, SimulatedUse* use) {
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
class SimulatedNode::Posts : public PartialTransport {
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

 private:
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

void SimulatedNode::Waited(Wait wait, int64_t begin_ns, int64_t) { events_->OnWaited(rank_, wait, begin_ns); }

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

void SimulatedNode::OnGranted(Rank peer, const PlaceTag& tag, uint32_t grant, int64_t bytes) {
  pipeline_.OnGranted(peer, tag, {grant, 0}, static_cast<size_t>(bytes));
}

void SimulatedNode::OnArrived(Rank peer, const PlaceTag& tag) { pipeline_.OnGrantEnded(peer, tag, OkStatus()); }

void SimulatedNode::OnSent(Rank peer, const PlaceTag& tag) { pipeline_.OnWriteEnded(peer, tag, OkStatus()); }

void SimulatedNode::OnExchanged(int64_t clock, int stage, int group) { pipeline_.OnExchanged(clock, stage, group); }

void SimulatedNode::OnValues(int64_t clock, int stage, int group) { pipeline_.OnValues(clock, stage, group); }

void SimulatedNode::OnVerdict(int64_t clock) { pipeline_.OnVerdict(clock, std::nullopt); }

// --- The executor

void SimulatedNode::OnPieceDone() {
  Running& last = running_.back();
  *TimeOf(last.task.kind, &use_) += clock_->NowNs() - piece_begin_ns_;
  computing_ = false;
  if (++last.piece < last.ends.size()) return;
  const Running done = std::move(last);
  running_.pop_back();
  events_->OnTaskDone(rank_, done.task, done.begin_ns);
  pipeline_.Done(done.task);
}

// An urgent task goes in between two pieces of the one that is being carried out.
bool SimulatedNode::TakeTask() {
  const bool between = !running_.empty();
  if (between && running_.back().ends.size() == 1) return true;
  std::optional<Task> task = between ? pipeline_.TryUrgentTask() : pipeline_.TryNextTask();
  if (!task) return between;
  Running running{*std::move(task), clock_->NowNs()};
  running.ends = pipeline_.MayInterrupt(running.task) ? times_->LayerEndsNs(rank_, running.task)
                                                      : std::vector<int64_t>{times_->NsOf(rank_, running.task)};
  CHECK_GE(running.ends.back(), 0) << hp::Describe(running.task);
  running_.push_back(std::move(running));
  events_->OnTask(rank_, running_.back().task);
  return true;
}

void SimulatedNode::Execute() {
  while (!computing_ && TakeTask()) {
    const Running& running = running_.back();
    const int64_t begin_ns = running.piece == 0 ? 0 : running.ends[running.piece - 1];
    const int64_t end_ns = running.ends[running.piece];
    piece_begin_ns_ = clock_->NowNs();
    computing_ = true;
    events_->OnPiece(rank_, running.task, begin_ns, end_ns);
    if (end_ns == begin_ns) OnPieceDone();
  }
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
  reset_ = pipeline_.time_use();
  pool_since_ns_ = use_since_ns_ = clock_->NowNs();
}

SimulatedUse SimulatedNode::Use() const {
  SimulatedUse use = use_;
  const int64_t now_ns = clock_->NowNs();
  use.ns = now_ns - use_since_ns_;
  use.time = pipeline_.time_use();
  use.time -= reset_;
  use.solver_ns += bound_ * (now_ns - pool_since_ns_);
  return use;
}

}  // namespace hp
