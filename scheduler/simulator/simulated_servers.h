#pragma once

#include "scheduler/simulator/event_queue.h"
#include "scheduler/simulator/simulated_job.h"

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace hp {

/// The parameter servers of one conv stage on simulated time: gradients go to the servers as the real ones' do, a
/// message for each group and server (the real ones send one for each parameter), and values to every replica that has
/// pulled. Places for gradients are always granted: in a run they are granted ahead of the values that a replica needs
/// first.
class SimulatedServers {
 public:
  /// What it does to others. `send`: a message whose end and arrival it is told by OnSent and OnArrived; `control`: an
  /// event that a few bytes cause; the others call the pipeline's functions of that name.
  struct Events {
    std::function<void(Rank from, Rank to, int64_t flow, int64_t bytes)> send;
    std::function<void(Rank from, Rank to, const SimulatedEvent& event)> control;
    std::function<void(Rank rank, int64_t clock, int stage, int group)> exchanged, values;
  };
  /// All must outlive it. @param index of the stage's servers in the job.
  SimulatedServers(int index, const SimulatedServed* served, Events events);

  /// A replica's gradient of the group at this place of the order is final.
  void Push(int64_t clock, int replica, int place);
  /// A replica lets new values in.
  void Pull(int64_t clock, int replica, int place);
  /// Event kPulled: a server knows of it.
  void OnPulled(int64_t flow);
  /// A server has updated its piece of a place.
  void OnUpdated(int64_t clock, int place, int piece);
  /// A message of `send` is taken by its connection; it has arrived.
  void OnSent(int64_t flow);
  void OnArrived(int64_t flow);
  /// For traces: the update and the place that a flow is of.
  int64_t ClockOf(int64_t flow) const { return Decode(flow).clock; }
  int PlaceOf(int64_t flow) const { return Decode(flow).place; }

 private:
  /// A gradient's piece on its way from a replica, or (values) back to it.
  struct Flow {
    int64_t clock = 0;
    int place = 0, piece = 0, replica = 0;
    bool values = false;
  };
  int64_t Encode(const Flow& flow) const;
  Flow Decode(int64_t number) const;
  /// Numbers an update's piece on a server, and an update's place on a replica.
  int64_t PieceKey(const Flow& flow) const { return Encode({flow.clock, flow.place, flow.piece, 0, false}); }
  int64_t ReplicaKey(const Flow& flow) const { return Encode({flow.clock, flow.place, 0, flow.replica, flow.values}); }
  void Send(const Flow& flow);
  /// @return whether all pieces of the flow's place have been counted.
  bool EndOne(const Flow& flow, std::map<int64_t, int>* ended);

  const int index_;
  const SimulatedServed& served_;
  const Events events_;
  int most_pieces_ = 0;
  std::map<int64_t, int> sent_, came_;              // by ReplicaKey: pieces
  std::map<int64_t, int> arrived_;                  // by PieceKey: replicas whose gradient is there
  std::map<int64_t, int> unsent_;                   // by PieceKey, of updated ones: replicas that have not pulled
  std::map<int64_t, std::vector<int64_t>> pulled_;  // by PieceKey: flows that wait for the update
};

}  // namespace hp
