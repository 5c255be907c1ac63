#pragma once

#include "base/clock.h"
#include "hp/status.h"
#include "proto/survey.pb.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace hp {

/// Measures the connection between two hosts: latency and clocks by pings, then the bandwidth each way by tensors that
/// are written for a second, as nodes write them. One end calls Measure, the other one only answers; both pass it the
/// transport's events. One measurement at a time. Progress thread only.
class LinkMeter {
 public:
  /// The types of its messages.
  enum Message : uint32_t { kPing = 1, kPong, kGrantMe, kArrived };

  /// @param clock of durations; the clocks that are compared are the systems'.
  explicit LinkMeter(Transport* transport, const Clock* clock = Clock::Real());

  /// Begins. `done` gets latency, bandwidths and the clocks' difference; host indices and path MTU are the caller's.
  void Measure(Rank peer, std::function<void(const PairReport&)> done);

  // The transport's events. @return an error: a post failed, or the peer said what no meter says.
  Status OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes);
  Status OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes);
  Status OnGrantEnded(Rank peer, const PlaceTag& tag);  // that is full

 private:
  Status Ping();
  Status OnPong(int64_t remote_ns);
  std::span<std::byte> PlaceOf(const PlaceTag& tag);
  /// Lets `peer` write into our places until a second is over, then tells `then` how fast it was.
  Status Receive(Rank peer, std::function<Status(double gbit_per_s)> then);

  Transport* const transport_;
  const Clock* const clock_;
  std::vector<std::byte> places_, source_;
  uint64_t next_id_ = 1;

  // The pings of Measure.
  Rank peer_ = -1;
  std::function<void(const PairReport&)> done_;
  PairReport report_;
  int64_t first_ping_ns_ = 0, ping_ns_ = 0, ping_system_ns_ = 0;
  std::vector<int64_t> round_trips_ns_;

  // What arrives.
  int open_ = 0;
  std::optional<int64_t> first_arrival_ns_;
  int64_t last_arrival_ns_ = 0;
  size_t arrived_ = 0;  // behind the first
  std::function<Status(double)> then_;
};

}  // namespace hp
