#pragma once

#include "scheduler/simulator/event_queue.h"
#include "scheduler/simulator/simulated_job.h"

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

namespace hp {

/// A frame on its way from host to host, for traces.
struct SimulatedFrame {
  Rank from = 0, to = 0;
  int64_t message = 0;  ///< the caller's number
  int64_t out_begin_ns = 0, out_end_ns = 0;
  int64_t in_begin_ns = 0, in_end_ns = 0;  ///< while it takes the receiver's link
};

/// What the network tells whoever sends.
class SimulatedNetworkEvents {
 public:
  virtual ~SimulatedNetworkEvents() = default;
  /// The last byte of a message has left: its source may be reused.
  virtual void OnSent(Rank from, Rank to, int64_t message) = 0;
  /// Of every frame between hosts, as it begins. Only if SimulatedNetwork::trace was called.
  virtual void OnFrame(const SimulatedFrame& frame) = 0;
};

/// Moves messages between nodes on simulated time, as the TCP transport does: a connection for each two nodes and
/// direction, on which messages go one behind the other, in frames, and control overtakes what is not on its way yet.
///
/// Links are shared by frames: a host sends a frame of each connection that has something to send, in turn. A frame
/// takes both links at once: it is in as soon as the receiver's link has carried its bytes behind those of frames that
/// came before, at the earliest `latency` after it is out. A connection has a few frames under way, the window, and
/// then waits until the receiver has taken the oldest: its turns go to the others. For transfers of many frames that is
/// the fair sharing of progressive filling, at a constant price for each frame instead of one in the number of all
/// transfers, which makes a thousand nodes possible.
class SimulatedNetwork {
 public:
  /// All must outlive it.
  SimulatedNetwork(const SimulatedJob* job, EventQueue* events, SimulatedNetworkEvents* handler);

  /// Sends a message; its arrival is an event kArrived, of `message` as `a`.
  void Send(Rank from, Rank to, int32_t message, int64_t bytes);
  /// When a control message of a few bytes that is sent now arrives. It waits for no frame but those of its own
  /// connection that are on their way.
  int64_t ControlArrivesNs(Rank from, Rank to);
  /// Largest of two hosts' latencies, in ns.
  int64_t LatencyNs(Rank from, Rank to) const;
  /// The slower of both links.
  double BytesPerSecond(Rank from, Rank to) const;

  /// Handles kFrameSent and kConnectionReady.
  void Handle(const SimulatedEvent& event);
  void trace(bool on) { trace_ = on; }

  /// Most bytes of a host that waited to be sent to others, what is under way included.
  int64_t MostQueued(int host) const { return outlets_[2 * host].most_queued; }

 private:
  struct Message {
    int32_t number = 0;
    int64_t left = 0;  // bytes that are not under way
  };
  struct Connection {
    Rank from = 0, to = 0;
    int outlet = 0, inlet = -1;        // inlet -1: within a host
    int64_t latency_ns = 0, most = 0;  // most: frames under way
    bool waits = false;                // it has its turn ahead, is sending, or waits for its receiver
    int64_t last_in_ns = 0;            // when the latest frame that is on its way arrives
    std::deque<int64_t> window = {};   // when the latest frames arrive
    std::deque<Message> messages = {};
  };
  /// The sending side of a link, or the memory of a host.
  struct Outlet {
    double ns_per_byte = 0;
    bool busy = false;
    int sending = -1;  // connection
    bool ends_message = false;
    std::deque<int> turns = {};  // connections
    int64_t queued = 0, most_queued = 0;
  };
  struct Inlet {
    double ns_per_byte = 0;
    int64_t free_ns = 0;
  };

  int ConnectionOf(Rank from, Rank to);
  int64_t WindowOf(const Connection& connection) const;
  void TakeTurn(int connection);
  void Next(int outlet);

  const SimulatedJob& job_;
  EventQueue* const events_;
  SimulatedNetworkEvents* const handler_;
  bool trace_ = false;
  std::vector<Outlet> outlets_;  // of host h: 2 h to other hosts, 2 h + 1 within it
  std::vector<Inlet> inlets_;    // by host
  std::vector<Connection> connections_;
  std::unordered_map<int64_t, int> numbers_;  // of connections, by sender and receiver
};

}  // namespace hp
