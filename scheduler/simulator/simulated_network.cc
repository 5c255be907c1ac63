#include "scheduler/simulator/simulated_network.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace hp {
namespace {

constexpr int64_t kLeastWindow = 2;

int64_t Ns(double ns) { return static_cast<int64_t>(std::llround(ns)); }

}  // namespace

SimulatedNetwork::SimulatedNetwork(const SimulatedJob* job, EventQueue* events, SimulatedNetworkEvents* handler)
    : job_(*job), events_(events), handler_(handler) {
  for (const SimulatedHost& host : job_.hosts) {
    outlets_.push_back({.ns_per_byte = 1e9 / host.bytes_per_s});
    outlets_.push_back({.ns_per_byte = 1e9 / host.memory_bytes_per_s});
    inlets_.push_back({.ns_per_byte = 1e9 / host.bytes_per_s});
  }
}

int64_t SimulatedNetwork::LatencyNs(Rank from, Rank to) const {
  const SimulatedHost& a = job_.hosts[job_.nodes[from].host];
  const SimulatedHost& b = job_.hosts[job_.nodes[to].host];
  return &a == &b ? a.local_latency_ns : std::max(a.latency_ns, b.latency_ns);
}

double SimulatedNetwork::BytesPerSecond(Rank from, Rank to) const {
  const SimulatedHost& a = job_.hosts[job_.nodes[from].host];
  const SimulatedHost& b = job_.hosts[job_.nodes[to].host];
  return &a == &b ? a.memory_bytes_per_s : std::min(a.bytes_per_s, b.bytes_per_s);
}

int SimulatedNetwork::ConnectionOf(Rank from, Rank to) {
  const auto [entry, is_new] = numbers_.try_emplace(int64_t{from} << 32 | to, static_cast<int>(connections_.size()));
  if (is_new) {
    const int source = job_.nodes[from].host, target = job_.nodes[to].host;
    connections_.push_back({.from = from,
                            .to = to,
                            .outlet = 2 * source + (source == target ? 1 : 0),
                            .inlet = source == target ? -1 : target,
                            .latency_ns = LatencyNs(from, to)});
    connections_.back().most = WindowOf(connections_.back());
  }
  return entry->second;
}

// As many frames as keep the slower link busy until the sender hears that the first was taken.
int64_t SimulatedNetwork::WindowOf(const Connection& connection) const {
  if (connection.inlet < 0) return kLeastWindow;
  const double slower = std::max(outlets_[connection.outlet].ns_per_byte, inlets_[connection.inlet].ns_per_byte);
  const double frame_ns = slower * static_cast<double>(job_.frame_bytes);
  return kLeastWindow + static_cast<int64_t>(std::ceil(2.0 * static_cast<double>(connection.latency_ns) / frame_ns));
}

void SimulatedNetwork::Send(Rank from, Rank to, int32_t message, int64_t bytes) {
  const int number = ConnectionOf(from, to);
  Connection& connection = connections_[number];
  connection.messages.push_back({message, bytes});
  Outlet& outlet = outlets_[connection.outlet];
  outlet.queued += bytes;
  outlet.most_queued = std::max(outlet.most_queued, outlet.queued);
  if (!std::exchange(connection.waits, true)) TakeTurn(number);
}

int64_t SimulatedNetwork::ControlArrivesNs(Rank from, Rank to) {
  const Connection& connection = connections_[ConnectionOf(from, to)];
  return std::max(events_->now_ns() + connection.latency_ns, connection.last_in_ns);
}

// A connection with something to send: behind the others of its outlet, or when its window has room.
void SimulatedNetwork::TakeTurn(int number) {
  Connection& connection = connections_[number];
  const int64_t now_ns = events_->now_ns();
  std::deque<int64_t>& window = connection.window;
  while (!window.empty() && window.front() <= now_ns) window.pop_front();
  if (const int64_t under_way = static_cast<int64_t>(window.size()); under_way >= connection.most) {
    events_->At(window[under_way - connection.most], {SimulatedEvent::kConnectionReady, number, 0});
    return;
  }
  Outlet& outlet = outlets_[connection.outlet];
  outlet.turns.push_back(number);
  if (!outlet.busy) Next(connection.outlet);
}

// Sends the next frame of the outlet.
void SimulatedNetwork::Next(int number) {
  Outlet& outlet = outlets_[number];
  outlet.busy = !outlet.turns.empty();
  if (!outlet.busy) return;
  outlet.sending = outlet.turns.front();
  outlet.turns.pop_front();
  Connection& connection = connections_[outlet.sending];
  Message& message = connection.messages.front();
  const int64_t bytes = std::min(message.left, job_.frame_bytes);
  message.left -= bytes;
  outlet.ends_message = message.left == 0;

  const int64_t begin_ns = events_->now_ns();
  const int64_t out_ns = begin_ns + Ns(outlet.ns_per_byte * static_cast<double>(bytes));
  int64_t in_begin_ns = begin_ns + connection.latency_ns, taken_ns = in_begin_ns;
  if (connection.inlet >= 0) {
    Inlet& inlet = inlets_[connection.inlet];
    in_begin_ns = std::max(in_begin_ns, inlet.free_ns);
    taken_ns = in_begin_ns + Ns(inlet.ns_per_byte * static_cast<double>(bytes));
    inlet.free_ns = taken_ns;
  }
  // What follows on a connection does not arrive before.
  const int64_t in_ns = std::max({taken_ns, out_ns + connection.latency_ns, connection.last_in_ns});
  connection.last_in_ns = in_ns;
  connection.window.push_back(in_ns);
  if (trace_ && connection.inlet >= 0) {
    handler_->OnFrame({connection.from, connection.to, message.number, begin_ns, out_ns, in_begin_ns, taken_ns});
  }
  if (outlet.ends_message) events_->At(in_ns, {SimulatedEvent::kArrived, message.number, 0});
  outlet.queued -= bytes;
  events_->At(out_ns, {SimulatedEvent::kFrameSent, number, 0});
}

void SimulatedNetwork::Handle(const SimulatedEvent& event) {
  if (event.kind == SimulatedEvent::kConnectionReady) return TakeTurn(event.a);
  Outlet& outlet = outlets_[event.a];
  const int number = outlet.sending;
  Connection& connection = connections_[number];
  const Message message = connection.messages.front();
  const Rank from = connection.from, to = connection.to;
  const bool ended = outlet.ends_message;
  if (ended) connection.messages.pop_front();
  connection.waits = !connection.messages.empty();
  if (connection.waits) TakeTurn(number);
  Next(event.a);
  if (ended) handler_->OnSent(from, to, message.number);
}

}  // namespace hp
