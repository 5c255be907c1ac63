#pragma once

#include "base/payload.h"
#include "scheduler/pipeline/task.h"
#include "scheduler/pipeline/time_use.h"
#include "scheduler/plan/pipeline_plan.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hp {

/// What the pipeline needs from its node: where tensors lie, and whether inputs have arrived. Implemented by the node.
/// Called under the pipeline's lock, on any thread: must not block and must not call the pipeline.
class PipelineHost {
 public:
  virtual ~PipelineHost() = default;
  /// The memory of port `port` (index into the phase's ports) for micro-batch `id` in solver `solver`: rows of `id` x
  /// PortPlan::row_bytes bytes, registered with the transport. A peer writes into it if the port is a landing one; else
  /// it is what the pipeline writes to the peer.
  virtual std::span<std::byte> Place(int solver, MsgId id, int port) = 0;
  /// Whether clock `clock`, above all that are open, computes with the parameters of all updates before it, also with
  /// staleness: because it has a test or its boundary copies them for a snapshot. The same on all nodes.
  virtual bool NeedsOwnVersion(int64_t /*clock*/) { return false; }
  /// Whether the boundary task of `clock` may be handed out (a snapshot needs room for its copies). If not, the host
  /// calls Pipeline::OnBoundaryReady when that may have changed. Once true it stays true until the task is done.
  virtual bool BoundaryReady(int64_t /*clock*/) { return true; }
  /// Whether the images and labels that `segment` reads of `id` are there. If not, the host calls Pipeline::OnInputs
  /// when some have arrived.
  virtual bool InputsReady(MsgId id, int segment) = 0;
  /// From `begin_ns` to `end_ns`, by the pipeline's clock, the executor had nothing to compute and waited for this.
  virtual void Waited(Wait /*wait*/, int64_t /*begin_ns*/, int64_t /*end_ns*/) {}
  /// Whether what is done at the boundary of `clock` reads what earlier clocks compute, or ends what they read: then
  /// all their tasks must be done, and not only enqueued (Pipeline::Enqueued).
  virtual bool BoundaryNeedsDone(int64_t /*clock*/) { return true; }
  /// `id` is done: neither this node nor the transport uses the memory of `solver` for `id` any more, nor inputs of
  /// `id`. Where tasks follow each other in the device's order a later id may use the solver already.
  virtual void Freed(int solver, MsgId id) = 0;
};

/// A bound id: how far it is computed, and which transfers into or out of its solver's memory are still open. "Passed"
/// is a task whose followers may be handed out: it is done, or enqueued where that is enough (Pipeline::Enqueued).
struct Flight {
  /// Of one group's weight-gradient task: the flight has none, it is not handed out, it is.
  enum WeightState : char { kNoWeights, kWeightsDue, kWeightsPushed };

  MsgId id;
  int solver = 0;
  int64_t version = 0;        ///< Task::version
  int segments = 0;           ///< of the id's phase
  int next_forward = 0;       ///< segment whose task has not passed yet; segments: the forward pass has
  int next_backward = -1;     ///< segment, once the forward pass has; -1: the backward pass has, or there is none
  bool running = false;       ///< a forward or backward task is handed out and has not passed; at most one is
  int ahead = 0;              ///< tasks that are handed out and have not passed
  int open_tasks = 0;         ///< tasks that are handed out and not done
  bool released = false;      ///< its solver was given back in the device's order (Flights::ReleaseIfPassed)
  bool lacks_inputs = false;  ///< the next forward task lacks nothing but images or labels
  std::vector<int> missing, missing_gradients;  ///< by segment: tensors of peers that have not arrived
  std::vector<WeightState> weights;             ///< by group
  int open_grants = 0, open_writes = 0;         ///< that the transport has not reported as ended
  std::set<int> unposted;                       ///< ports whose tensor is final and whose grant has not arrived

  /// Whether all forward and backward tasks have passed; weight gradients and transfers may still be open.
  bool computed() const { return next_forward == segments && next_backward < 0 && !running; }
};

/// The bound ids of a node and the tensors that they send and receive. Grants peers the places where their tensors
/// land, writes tensors that are final to the places that peers granted, and decides which forward, backward and
/// weight-gradient tasks are ready. Not thread-safe: the pipeline owns it and calls it under its own lock, which is
/// held while the transport is posted to. A post that fails is logged here, and its tensor never moves: the job ends,
/// by the failure detector where the peer is lost, else by the node.
class Flights {
 public:
  /// All must outlive it.
  Flights(const PipelinePlan* plan, PipelineHost* host, Transport* transport)
      : plan_(plan),
        host_(host),
        transport_(transport),
        weights_taken_(plan->groups.size()),
        gradient_clocks_(plan->groups.size(), plan->start_clock) {}

  /// Bound ids that are not done.
  int size() const { return static_cast<int>(flights_.size()); }
  /// Tensors that are final and not with their readers: not granted yet, or being written.
  int unsent() const;
  /// Binds `id` to the free solver `solver` and grants all its landing places.
  /// @param version Task::version of its tasks.
  /// @return the flight, which stays where it is until FreeIfDone ends it.
  Flight* Bind(MsgId id, int solver, int64_t version);
  /// @return null: the id is not bound.
  Flight* Find(MsgId id);
  /// Whether a flight that is not done has the solver.
  bool Uses(int solver) const;
  /// The solver of `id`, which must be bound, may be bound to a later id if all its tasks have passed. Only where no id
  /// has ports: nothing but the device uses its memory. Once for each flight; it goes on to FreeIfDone.
  /// @return the solver; nothing: it is not so far.
  std::optional<int> ReleaseIfPassed(MsgId id);
  struct FreedSolver {
    int solver = 0;
    bool released = false;  ///< it was given back by ReleaseIfPassed, and may be bound again
  };
  /// Ends the flight of `id`, which must be bound, if all its tasks are done and all its grants and writes have ended.
  /// @return nothing: the flight goes on.
  std::optional<FreedSolver> FreeIfDone(MsgId id);

  // --- Order of work
  /// The flight's next forward or backward task if all that it needs is there; it counts as handed out (`running`).
  std::optional<Task> TakeTask(Flight* flight);
  /// The same for all flights, in the order of ids.
  std::vector<Task> TakeTasks();
  /// The weight-gradient tasks that are ready; they count as handed out. A group's tasks come in the order of ids,
  /// whose gradients must be added in that order.
  std::vector<Task> TakeWeightGradients();
  /// The memory of the group's gradient has done its work for a clock: that of the next one may be added there.
  void ReleaseGradient(int group) { ++gradient_clocks_[group]; }
  /// Whether the memory of the group's gradient is free for `clock`.
  bool IsReleased(int group, int64_t clock) const { return gradient_clocks_[group] >= clock; }
  /// A task of the flight has passed: the next one may be handed out.
  void PassForward(Flight* flight);
  void PassBackward(Flight* flight, int segment);
  void PassWeightGradient(Flight* flight) { --flight->ahead; }
  /// And it is done: tensors that leave after `segment` are written, or wait for their grants.
  void FinishForward(Flight* flight, int segment);
  void FinishBackward(Flight* flight, int segment);
  void FinishWeightGradient(Flight* flight) { --flight->open_tasks; }
  /// What keeps the flights whose passes are not all computed, where none of them has a task that is ready: images or
  /// labels if any lacks nothing else, else what the first of them waits for. @return nothing: there are none.
  std::optional<Wait> Lacking() const;
  /// The same for flights that are computed: their solvers are not free yet.
  std::optional<Wait> HeldBy() const;

  // --- What the transport reports
  /// A peer granted a place. It is kept if the id is not bound yet or its tensor is not final.
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes);
  /// A grant of ours ended: ok, the tensor has arrived; else the peer is lost, and the segment never gets it.
  /// @return the flight whose place it was.
  Flight* OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status);
  /// A write of ours ended, well or not. @return the flight whose tensor it was.
  Flight* OnWriteEnded(const PlaceTag& tag);

  /// What the ports of training ids have moved, by peer: counted when a write is posted, and when a tensor has arrived.
  const std::map<Rank, Payload>& payload() const { return payload_; }
  /// For logs: each flight, and what it waits for.
  std::string Describe() const;

 private:
  struct StoredGrant {
    RemoteGrant grant;
    size_t bytes = 0;
  };

  static bool HasWeightsDue(const Flight& flight);
  void GrantPlaces(Flight* flight);
  void WriteFinal(Flight* flight, int segment, bool gradient);
  void PostIfGranted(Flight* flight, int port);
  int FindPort(MsgId id, uint32_t number, bool landing, Rank peer) const;
  int NextBackward(MsgId id, int below) const;
  bool BackwardIsInOrder(const Flight& flight) const;

  const PipelinePlan* const plan_;
  PipelineHost* const host_;
  Transport* const transport_;
  std::map<MsgId, Flight> flights_;
  int lack_inputs_ = 0;                   // flights with lacks_inputs
  std::vector<MsgId> weights_taken_;      // by group: whose weight gradient was the last to be handed out
  std::vector<int64_t> gradient_clocks_;  // by group: the clock that its gradient's memory belongs to
  std::map<std::pair<Rank, PlaceTag>, StoredGrant> grants_;  // of peers, until they are written to
  std::map<Rank, Payload> payload_;
};

}  // namespace hp
