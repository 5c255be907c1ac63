#pragma once

#include "scheduler/simulator/event_queue.h"
#include "scheduler/simulator/simulated_job.h"

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace hp {

class SimulatedNetwork;

/// The allreduces of one data-parallel stage as a ring on simulated time. A collective starts when all replicas have
/// given all of it, those before it have started, and at most one of them is under way, as in Ring. Then each replica
/// sends its right neighbour 2 (n - 1) / n of the bytes over the links that pipelines share, as one flow: the blocks of
/// all steps, which follow each other without a pause as long as a block takes longer to send than a chunk to arrive.
/// Where blocks are small, that latency counts instead, once for each of the 2 (n - 1) steps. (Steps of their own would
/// be n times as many messages again, half a million for a collective of 512 replicas.) Where hosts sum first, one
/// replica of each goes round, and what is within hosts counts nothing.
class SimulatedRing {
 public:
  /// What it does to others: `send` a flow from one node to another, whose arrival it is told by OnArrived; `summed`:
  /// a group has its sum on all replicas, by the place in the order of SimulatedExchange::groups.
  struct Events {
    std::function<void(Rank from, Rank to, int64_t collective, int64_t bytes)> send;
    std::function<void(int64_t clock, int place)> summed;
  };
  /// All must outlive it. @param index of the exchange in the job.
  SimulatedRing(int index, const SimulatedExchange* exchange, const SimulatedNetwork* network, EventQueue* queue,
                Events events);

  /// A replica's gradient of the group at this place of the order is final.
  void Add(int64_t clock, int place);
  /// A flow of `send` has arrived. @param collective as in `send`.
  void OnArrived(int64_t collective);
  /// Event kSummed.
  void OnSummed(int64_t collective);
  /// Bytes that each replica sends of a collective.
  int64_t FlowBytes(int64_t collective) const;

 private:
  /// A collective of one clock; numbers count through the clocks.
  struct UnderWay {
    int flows = 0;            // that have not arrived
    int64_t earliest_ns = 0;  // at which it can be summed: its latencies
  };
  const SimulatedExchange::Collective& Of(int64_t collective) const {
    return exchange_.collectives[static_cast<size_t>(collective) % exchange_.collectives.size()];
  }
  void StartNext();

  const int index_;
  const SimulatedExchange& exchange_;
  const std::vector<Rank>& ring_;
  const SimulatedNetwork& network_;
  EventQueue* const queue_;
  const Events events_;
  std::vector<int> parts_of_;                      // by collective of a clock: groups with a part in it, times replicas
  std::map<int64_t, int> added_;                   // by collective: parts that were given
  std::map<int64_t, UnderWay> under_way_;          // by collective
  std::map<std::pair<int64_t, int>, int> summed_;  // by clock and place: collectives of the group that are summed
  int64_t next_ = 0;                               // collective to start
};

}  // namespace hp
