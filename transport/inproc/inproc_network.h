#pragma once

#include "base/clock.h"
#include "transport/transport.h"

#include <cstdint>
#include <functional>
#include <memory>

namespace hp {

struct InprocHub;

/// Of a network of transports within one process.
struct InprocOptions {
  /// Nodes of the job; ranks 0 to world_size - 1 that do not appear in time are reported by OnConnectFailed. 0: nobody
  /// is waited for.
  int world_size = 0;
  int connect_deadline_ms = 30'000;
  /// How long an event on the way from `from` to `to` takes, in nanoseconds of real time; called from any thread, one
  /// call at a time for each link and direction. `bulk`: a write; else a message, grant, cancel or end. Null: no delay.
  /// Order is kept within bulk and within the others of one link and direction, and between nothing else.
  std::function<int64_t(Rank from, Rank to, bool bulk)> delay = {};
  /// What LastHeardNs is measured by.
  const Clock* clock = Clock::Real();
};

/// Delays between 0 and `max_us` microseconds, drawn by `seed` from (from, to, bulk, how many went before).
std::function<int64_t(Rank, Rank, bool)> RandomDelays(uint64_t seed, int max_us);

/// What the transports of one process have in common: by it they find each other. For several nodes in one process, and
/// for tests, which delay events and cut connections. A write is one memcpy, so no memory needs to be registered.
/// It may go away before its transports do. Any thread.
class InprocNetwork {
 public:
  explicit InprocNetwork(InprocOptions options = {});

  /// The transport of node `rank`. Started, it connects to every other node of the network as that starts.
  std::unique_ptr<Transport> Create(Rank rank);
  /// The transport of somebody who is no node and connects to `server` only, once that is started.
  std::unique_ptr<Transport> CreateClient(Rank server);
  /// Breaks the connection between two nodes: both see OnClosed(kUnavailable).
  void Cut(Rank a, Rank b);

 private:
  std::shared_ptr<InprocHub> hub_;
};

}  // namespace hp
