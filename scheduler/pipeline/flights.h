#pragma once

#include "scheduler/pipeline/task.h"
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

/// A bound id: how far it is computed, and what of its solver's memory others still read or write.
struct Flight {
  enum WeightState : char { kNoWeights, kWeightsDue, kWeightsPushed, kWeightsDone };

  MsgId id;
  int solver = 0;
  int segments = 0;
  int next_forward = 0;                         ///< segment
  int next_backward = -1;                       ///< segment, once the forward pass is done; -1: done, or none
  bool running = false;                         ///< a forward or backward task is handed out
  bool lacks_inputs = false;                    ///< ... which only records or labels keep from that
  std::vector<int> missing, missing_gradients;  ///< landings, by segment
  std::vector<WeightState> weights;             ///< by unit
  int open_grants = 0, open_writes = 0;
  std::set<int> unposted;  ///< ports whose tensor is final and whose grant is not there

  bool computed() const { return next_forward == segments && next_backward < 0 && !running; }
};

/// A node's bound ids and the tensors that they send and receive: grants their landing places, writes what is final to
/// whoever granted a place, and knows which of their segments can be computed. Has no lock: the pipeline owns it and
/// calls it under its own. Posting to the transport fails only if the peer is lost, and then whoever watches the
/// connections ends the job: here it is logged.
class Flights {
 public:
  /// All must outlive it.
  Flights(const PipelinePlan* plan, PipelineHost* host, Transport* transport)
      : plan_(plan), host_(host), transport_(transport) {}

  /// Binds `id` to a free solver and grants its landing places.
  Flight* Bind(MsgId id, int solver);
  /// @return null: the id is not bound.
  Flight* Find(MsgId id);
  /// If nothing reads or writes the solver's memory for `id` any more, unbinds it. @return the solver, which is free.
  std::optional<int> FreeIfDone(MsgId id);

  // --- Order of work
  /// The flight's next forward or backward task, if what it needs is there; it counts as handed out.
  std::optional<Task> TakeTask(Flight* flight);
  /// The same of all flights.
  std::vector<Task> TakeTasks();
  /// Weight gradients that can be added now, in the order in which they must be.
  std::vector<Task> TakeWeightGradients();
  /// A task of the flight is done; what it made final is written.
  void FinishForward(Flight* flight, int segment);
  void FinishBackward(Flight* flight, int segment);
  /// Whether some flight lacks nothing but its records or labels.
  bool AnyLacksInputs() const;

  // --- What the transport reports
  void OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes);
  /// @return whose place it was.
  Flight* OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status);
  Flight* OnWriteEnded(const PlaceTag& tag);

  /// For logs: each flight, and what it waits for.
  std::string Describe() const;

 private:
  struct StoredGrant {
    RemoteGrant grant;
    size_t bytes = 0;
  };

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
  std::map<std::pair<Rank, PlaceTag>, StoredGrant> grants_;  // of others, until something is written there
};

}  // namespace hp
