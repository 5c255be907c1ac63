#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <tuple>
#include <vector>

namespace hp {

/// Something that happens at a moment of simulated time. What `a` and `b` mean is said with each kind.
struct SimulatedEvent {
  enum Kind : int32_t {
    kFrameSent,        ///< outlet `a` is free: its frame has left
    kConnectionReady,  ///< connection `a` may send again: its receiver took a frame
    kSent,             ///< message `a` is taken by its connection: its source may be reused
    kArrived,          ///< message `a` is in its place
    kTaskDone,         ///< the task of node `a`, or a piece of it
    kGradientFinal,    ///< group `b` of node `a`, in the last backward task of its clock
    kGranted,          ///< grant `a` is known to its writer
    kReport,           ///< a node's report of clock `b` has come to the first node
    kVerdict,          ///< the verdict of clock `b` has come to node `a`
    kSummed,           ///< ring `a` has summed collective `b`
    kPulled,           ///< a server of servers `a` may send flow `b`
  } kind = kTaskDone;
  int32_t a = 0;
  int64_t b = 0;
};

/// What is going to happen, in the order of time; of the same moment, in the order of the calls, so that a simulation
/// is the same each time. Not thread-safe.
class EventQueue {
 public:
  int64_t now_ns() const { return now_ns_; }
  bool empty() const { return events_.empty(); }
  /// When the next event happens. Must not be empty.
  int64_t next_ns() const { return events_.top().ns; }
  /// @param ns not before now.
  void At(int64_t ns, const SimulatedEvent& event) { events_.push({ns, count_++, event}); }
  /// Removes the next event; from now on it is its time. Must not be empty.
  SimulatedEvent Take() {
    const Entry first = events_.top();
    events_.pop();
    now_ns_ = first.ns;
    return first.event;
  }
  /// Events so far.
  int64_t count() const { return count_; }

 private:
  struct Entry {
    int64_t ns = 0, number = 0;
    SimulatedEvent event = {};
    bool operator<(const Entry& other) const { return std::tie(other.ns, other.number) < std::tie(ns, number); }
  };
  int64_t now_ns_ = 0, count_ = 0;
  std::priority_queue<Entry> events_;
};

}  // namespace hp
