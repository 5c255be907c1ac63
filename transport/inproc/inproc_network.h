#pragma once

#include "base/clock.h"
#include "transport/transport.h"

#include <cstdint>
#include <functional>
#include <memory>

namespace hp {

struct InprocHub;

/// Options of a network of transports within one process.
struct InprocOptions {
  /// Number of nodes of the job; ranks 0 to world_size - 1 that do not start in time are reported by OnConnectFailed.
  /// 0: nobody is waited for.
  int world_size = 0;
  int connect_deadline_ms = 30'000;  ///< from the Start of each transport, in real time
  /// The delay of an event from `from` to `to`, in nanoseconds of real time; for tests. Called from any thread, one
  /// call at a time for each link and direction. `bulk`: a write; else a message, grant, cancel or end. Events keep
  /// their order within bulk and within the others of one link and direction; all else may overtake. Null: no delay.
  std::function<int64_t(Rank from, Rank to, bool bulk)> delay = {};
  /// The clock of LastHeardNs.
  const Clock* clock = Clock::Real();
};

/// For InprocOptions::delay: random delays from 0 to `max_us` microseconds, a function of seed, from, to, bulk and the
/// number of events before.
std::function<int64_t(Rank, Rank, bool)> RandomDelays(uint64_t seed, int max_us);

/// Connects the transports of one process with each other, without sockets: for several nodes in one process, and for
/// tests, which can delay events and cut connections. A write is one memcpy by the receiver's progress thread; memory
/// need not be registered. The network may be destroyed before its transports. Any thread.
///   InprocNetwork network({.world_size = 2});
///   auto a = network.Create(0), b = network.Create(1);   // then Start both
class InprocNetwork {
 public:
  explicit InprocNetwork(InprocOptions options = {});

  /// The transport of node `rank`. Once started, it connects to every other node of the network as soon as that is
  /// started.
  std::unique_ptr<Transport> Create(Rank rank);
  /// The transport of a client, which connects to node `server` only, as soon as that is started.
  std::unique_ptr<Transport> CreateClient(Rank server);
  /// Breaks the connection between two nodes, soon: both get OnClosed(kUnavailable). No effect if there is none. For
  /// tests.
  void Cut(Rank a, Rank b);

 private:
  std::shared_ptr<InprocHub> hub_;
};

}  // namespace hp
