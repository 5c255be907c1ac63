#pragma once

#include "base/clock.h"
#include "scheduler/pipeline/pipeline.h"
#include "scheduler/simulator/event_queue.h"
#include "scheduler/simulator/simulated_job.h"
#include "scheduler/simulator/simulated_use.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace hp {

/// The time of a simulation as the pipelines see it.
class SimulatedClock : public Clock {
 public:
  explicit SimulatedClock(const EventQueue* events) : events_(events) {}
  int64_t NowNs() const override { return events_->now_ns(); }

 private:
  const EventQueue* const events_;
};

/// Addresses without memory, for places and sources that nobody reads or writes: touching one faults.
class AddressRange {
 public:
  explicit AddressRange(size_t bytes);
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;
  /// @param bytes at most those of the range.
  std::span<std::byte> First(size_t bytes) const { return {begin_, bytes}; }

 private:
  std::byte* begin_ = nullptr;
  size_t bytes_ = 0;
};

/// What a node does that concerns others, or whoever watches. None may call the node.
class SimulatedNodeEvents {
 public:
  virtual ~SimulatedNodeEvents() = default;
  virtual void OnGrant(Rank owner, Rank writer, const PlaceTag& tag, int64_t bytes) = 0;
  /// @param grant index of the grant, as OnGranted gave it.
  virtual void OnWrite(Rank from, Rank to, const PlaceTag& tag, uint32_t grant, int64_t bytes) = 0;
  /// A task begins.
  virtual void OnTask(Rank rank, const Task& task) = 0;
  /// A piece of it begins: that from `begin_ns` to `end_ns` after the task's begin, had nothing come in
  /// between. If that is no time, it is done right after the call.
  virtual void OnPiece(Rank rank, const Task& task, int64_t begin_ns, int64_t end_ns) = 0;
  /// It had nothing to compute until now, and waited for this.
  virtual void OnWaited(Rank rank, Wait wait, int64_t begin_ns) = 0;
  /// A task is done, which began then; before the pipeline hears of it.
  virtual void OnTaskDone(Rank rank, const Task& task, int64_t begin_ns) = 0;
};

/// One node of a simulated job: the real Pipeline, with a transport that makes events of what it posts, and an executor
/// that takes as long for a task as TaskTimes says. Images and labels are always there.
class SimulatedNode : private PipelineHost {
 public:
  /// All must outlive it. @param places at least as large as the largest tensor of a micro-batch.
  SimulatedNode(Rank rank, const PipelinePlan& plan, const Schedule& schedule, const Clock* clock,
                const TaskTimes* times, const AddressRange* places, SimulatedNodeEvents* events);
  ~SimulatedNode() override;

  void Start() { pipeline_.Start(); }
  // What happens to it. Execute follows, once for all that happens at one moment.
  void OnGranted(Rank peer, const PlaceTag& tag, uint32_t grant, int64_t bytes);
  void OnArrived(Rank peer, const PlaceTag& tag);
  void OnSent(Rank peer, const PlaceTag& tag);
  void OnExchanged(int64_t clock, int stage, int group);
  void OnValues(int64_t clock, int stage, int group);
  void OnVerdict(int64_t clock);
  /// The piece of a task that Execute began is done.
  void OnPieceDone();
  /// Begins the next tasks, if nothing is being computed: those that take no time are done at once.
  void Execute();

  bool finished() const { return pipeline_.finished(); }
  /// Whose clock is under way, and what each id waits for.
  std::string Describe() const { return pipeline_.Describe(); }
  /// Bytes that it sends or got; `wire`: to or from another host.
  void CountSent(int64_t bytes, bool wire);
  void CountReceived(int64_t bytes, bool wire);
  /// Counts from now on. Between two tasks, as is Use.
  void ResetUse();
  /// Until now.
  SimulatedUse Use() const;

 private:
  class Posts;
  /// A task that is being carried out.
  struct Running {
    Task task;
    int64_t begin_ns = 0;
    std::vector<int64_t> ends = {};  // of its pieces, after its begin: one, or one for each layer
    size_t piece = 0;                // under way, or the next one
  };

  std::span<std::byte> Place(int solver, MsgId id, int port) override;
  bool NeedsOwnVersion(int64_t clock) override { return schedule_.TestsAt(clock); }
  bool InputsReady(MsgId id, int segment) override;
  void Freed(int solver, MsgId id) override;
  void Waited(Wait wait, int64_t begin_ns, int64_t end_ns) override;
  void Bound(MsgId id);
  void CountPool();
  bool TakeTask();

  const Rank rank_;
  const PipelinePlan plan_;
  const Schedule schedule_;
  const Clock* const clock_;
  const TaskTimes* const times_;
  const AddressRange* const places_;
  SimulatedNodeEvents* const events_;
  const std::unique_ptr<Posts> posts_;
  Pipeline pipeline_;

  std::vector<Running> running_;  // one, and an urgent one in between two of its layers
  bool computing_ = false;        // a piece of the last one is under way
  int64_t piece_begin_ns_ = 0;
  uint64_t last_bound_ = 0;
  int bound_ = 0;
  int64_t pool_since_ns_ = 0, use_since_ns_ = 0;
  std::map<std::pair<int64_t, bool>, int64_t> rows_;  // by turn and phase
  SimulatedUse use_;
  TimeUse reset_;  // of the pipeline, when counting began
};

}  // namespace hp
