#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "hp/status.h"
#include "scheduler/pipeline/task.h"
#include "scheduler/plan/pipeline_plan.h"
#include "scheduler/plan/schedule.h"
#include "transport/transport.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace hp {

/// What the pipeline asks of its node. Called under the pipeline's lock: must be quick and must not call back.
class PipelineHost {
 public:
  virtual ~PipelineHost() = default;
  /// The bytes of port `port` (index into the phase's ports) of the micro-batch `id` in solver `solver`.
  virtual std::span<std::byte> Place(int solver, MsgId id, int port) = 0;
  /// Whether the boundary in front of `clock` may be handed out; where it is not ready, OnBoundaryReady is called when
  /// it may have become so. Once true it stays so until the boundary is done.
  virtual bool BoundaryReady(int64_t /*clock*/) { return true; }
  /// Whether records and labels that `segment` reads have arrived.
  virtual bool InputsReady(MsgId id, int segment) = 0;
  /// The solver is free: nothing reads or writes its memory for `id` any more.
  virtual void Freed(int solver, MsgId id) = 0;
};

/// The state machine of a node's pipelines: binds the next id of the node's list as soon as a solver and its parameter
/// version are there, grants its landing places, hands out what has its inputs in the order of work, writes what is
/// final to whoever granted a place, and frees the solver when its work, posts and grants have ended. One clock after
/// the other: tests, training micro-batches, updates. Has no thread: the executor asks for tasks, the transport's
/// progress thread reports events. All methods from any thread.
/// Source of the contract: README.md of this folder.
class Pipeline {
 public:
  Pipeline(const PipelinePlan& plan, const Schedule& schedule, PipelineHost* host, Transport* transport,
           const Clock* clock = Clock::Real());

  /// All peers are connected: the first clock may begin.
  void Start();

  // --- The executor's side.
  /// Blocks until there is a task. @return nothing: the job is done or was stopped.
  std::optional<Task> NextTask();
  /// Never blocks. For tests that interleave by hand.
  std::optional<Task> TryNextTask();
  void Done(const Task& task);

  // --- Events.
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes);
  void OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status);
  void OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status);
  /// The gradient of `unit` (index into PipelinePlan::units) for `clock`, which is under way, is the sum over all nodes
  /// of its stage. Once for each of the clock's units that are exchanged, in any order, and also before the backward
  /// task is done that gave the last of it away.
  void OnExchanged(int64_t clock, int stage, int unit);
  /// Records or labels arrived: what waited for InputsReady is looked at again.
  void OnInputs();
  /// The verdict of `clock` is go (or scale, or skip). `stop_at`: no id of that clock or a later one is bound.
  void OnVerdict(int64_t clock, std::optional<int64_t> stop_at);
  /// What waited for BoundaryReady is looked at again.
  void OnBoundaryReady();
  /// Ends NextTask for good.
  void Abort();

  bool finished() const;
  /// How long the executor has been without a task while a micro-batch lacked nothing but its records or labels.
  int64_t input_wait_ns() const;
  /// One line on what is bound and what each waits for: for logs when something does not move.
  std::string Describe() const;

 private:
  enum WeightState : char { kNoWeights, kWeightsDue, kWeightsPushed, kWeightsDone };
  /// A bound id.
  struct Flight {
    MsgId id;
    int solver = 0;
    int next_forward = 0;                         // segment
    int next_backward = -1;                       // segment, once the forward pass is done; -1: done, or none
    bool running = false;                         // a forward or backward task is handed out
    bool lacks_inputs = false;                    // ... which only records or labels keep from that
    std::vector<int> missing, missing_gradients;  // landings, by segment
    std::vector<WeightState> weights;             // by unit
    int open_grants = 0, open_writes = 0;
    std::set<int> unposted;  // ports whose tensor is final and whose grant is not there

    bool computed(int segments) const { return next_forward == segments && next_backward < 0 && !running; }
  };
  /// A unit in the clock under way.
  struct Unit {
    int missing = 0;         // micro-batches whose gradient is not added yet
    bool exchanged = false;  // ... and other nodes' parts are in it
    bool gradient = false;   // final, or computed with the update
    bool pushed = false;     // its update is handed out
  };
  struct StoredGrant {
    RemoteGrant grant;
    size_t bytes = 0;
  };
  struct TaskOrder {
    bool operator()(const Task& a, const Task& b) const { return GoesBefore(a, b); }
  };

  const PhasePlan& phase(MsgId id) const { return id.train() ? plan_.train : plan_.test; }
  std::optional<Task> TakeTask() HP_REQUIRES(mutex_);
  static int NextBackward(const PhasePlan& plan, int below);
  int FindPort(MsgId id, uint32_t number, bool landing, Rank peer) const;

  void OpenClock() HP_REQUIRES(mutex_);
  void FinishBoundary() HP_REQUIRES(mutex_);
  void BindMore() HP_REQUIRES(mutex_);
  void Bind(MsgId id, int solver) HP_REQUIRES(mutex_);
  void Push(const Task& task) HP_REQUIRES(mutex_);
  void Advance(Flight* flight) HP_REQUIRES(mutex_);
  void AdvanceAll() HP_REQUIRES(mutex_);
  bool BackwardIsInOrder(const Flight& flight) const HP_REQUIRES(mutex_);
  void FinishForward(const Task& task) HP_REQUIRES(mutex_);
  void FinishBackward(const Task& task) HP_REQUIRES(mutex_);
  void BackwardEnded() HP_REQUIRES(mutex_);
  void PushWeights() HP_REQUIRES(mutex_);
  void FinishWeightGradient(const Task& task) HP_REQUIRES(mutex_);
  void UnitProgress(int unit) HP_REQUIRES(mutex_);
  void FinishGradientIfDone(int unit) HP_REQUIRES(mutex_);
  void ScheduleUpdates() HP_REQUIRES(mutex_);
  bool TrainsComputed() const HP_REQUIRES(mutex_);
  void FinishClockIfDone() HP_REQUIRES(mutex_);
  void WriteFinal(Flight* flight, int segment, bool gradient) HP_REQUIRES(mutex_);
  void PostIfGranted(Flight* flight, int port) HP_REQUIRES(mutex_);
  void FreeIfDone(MsgId id) HP_REQUIRES(mutex_);

  const PipelinePlan plan_;
  const class Schedule schedule_;
  PipelineHost* const host_;
  const Clock* const clock_source_;
  Transport* const transport_;  // posted to under mutex_: lock order is pipeline, then transport

  mutable Mutex mutex_;
  CondVar changed_;
  std::multiset<Task, TaskOrder> ready_ HP_GUARDED_BY(mutex_);
  std::map<MsgId, Flight> flights_ HP_GUARDED_BY(mutex_);
  std::set<int> free_solvers_ HP_GUARDED_BY(mutex_);
  std::map<std::pair<Rank, PlaceTag>, StoredGrant> grants_ HP_GUARDED_BY(mutex_);

  // The clock under way.
  int64_t clock_ HP_GUARDED_BY(mutex_) = 0;
  bool started_ HP_GUARDED_BY(mutex_) = false;
  bool boundary_pushed_ HP_GUARDED_BY(mutex_) = false;
  bool open_ HP_GUARDED_BY(mutex_) = false;        // its ids may be bound
  bool training_ HP_GUARDED_BY(mutex_) = false;    // it has training ids
  std::vector<MsgId> list_ HP_GUARDED_BY(mutex_);  // its ids
  size_t next_ HP_GUARDED_BY(mutex_) = 0;          // first unbound one
  int tests_left_ HP_GUARDED_BY(mutex_) = 0;       // test ids whose forward pass is not done
  int flights_left_ HP_GUARDED_BY(mutex_) = 0;     // ids whose solver is not free again
  std::vector<Unit> unit_ HP_GUARDED_BY(mutex_);
  int units_left_ HP_GUARDED_BY(mutex_) = 0;  // units that are not updated
  bool norm_pushed_ HP_GUARDED_BY(mutex_) = false, norm_done_ HP_GUARDED_BY(mutex_) = false;
  bool finish_pushed_ HP_GUARDED_BY(mutex_) = false;

  int64_t verdict_ HP_GUARDED_BY(mutex_);  // latest clock with a verdict
  std::optional<int64_t> stop_at_ HP_GUARDED_BY(mutex_);
  bool finished_ HP_GUARDED_BY(mutex_) = false;
  int64_t input_wait_ns_ HP_GUARDED_BY(mutex_) = 0;
  std::optional<int64_t> starved_since_ns_ HP_GUARDED_BY(mutex_);  // the executor asked, and inputs are what it lacks
};

}  // namespace hp
