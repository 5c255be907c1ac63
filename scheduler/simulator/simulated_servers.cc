#include "scheduler/simulator/simulated_servers.h"

#include <algorithm>
#include <utility>

namespace hp {

SimulatedServers::SimulatedServers(int index, const SimulatedServed* served, Events events)
    : index_(index), served_(*served), events_(std::move(events)) {
  for (const auto& pieces : served_.pieces) most_pieces_ = std::max(most_pieces_, static_cast<int>(pieces.size()));
}

int64_t SimulatedServers::Encode(const Flow& flow) const {
  const int64_t place = flow.clock * std::ssize(served_.pieces) + flow.place;
  const int64_t replica = (place * most_pieces_ + flow.piece) * std::ssize(served_.ranks) + flow.replica;
  return replica * 2 + (flow.values ? 1 : 0);
}

SimulatedServers::Flow SimulatedServers::Decode(int64_t number) const {
  Flow flow;
  const auto take = [&number](int64_t bound) { return std::exchange(number, number / bound) % bound; };
  flow.values = take(2) != 0;
  flow.replica = static_cast<int>(take(std::ssize(served_.ranks)));
  flow.piece = static_cast<int>(take(most_pieces_));
  flow.place = static_cast<int>(take(std::ssize(served_.pieces)));
  flow.clock = number;
  return flow;
}

void SimulatedServers::Send(const Flow& flow) {
  const SimulatedServed::Piece& piece = served_.pieces[flow.place][flow.piece];
  Rank from = served_.ranks[flow.replica], to = served_.servers[piece.server];
  if (flow.values) std::swap(from, to);
  events_.send(from, to, Encode(flow), piece.bytes);
}

bool SimulatedServers::EndOne(const Flow& flow, std::map<int64_t, int>* ended) {
  const auto entry = ended->try_emplace(ReplicaKey(flow)).first;
  if (++entry->second < std::ssize(served_.pieces[flow.place])) return false;
  ended->erase(entry);
  return true;
}

void SimulatedServers::Push(int64_t clock, int replica, int place) {
  for (int piece = 0; piece < std::ssize(served_.pieces[place]); ++piece) Send({clock, place, piece, replica, false});
}

void SimulatedServers::Pull(int64_t clock, int replica, int place) {
  for (int piece = 0; piece < std::ssize(served_.pieces[place]); ++piece) {
    const Rank server = served_.servers[served_.pieces[place][piece].server];
    const int64_t flow = Encode({clock, place, piece, replica, true});
    events_.control(served_.ranks[replica], server, {SimulatedEvent::kPulled, index_, flow});
  }
}

void SimulatedServers::OnPulled(int64_t number) {
  const Flow flow = Decode(number);
  const auto updated = unsent_.find(PieceKey(flow));
  if (updated == unsent_.end()) {
    pulled_[PieceKey(flow)].push_back(number);
    return;
  }
  if (--updated->second == 0) unsent_.erase(updated);
  Send(flow);
}

void SimulatedServers::OnUpdated(int64_t clock, int place, int piece) {
  const int64_t key = PieceKey({clock, place, piece, 0, false});
  const auto waiting = pulled_.extract(key);
  const int left = static_cast<int>(std::ssize(served_.ranks) - (waiting ? std::ssize(waiting.mapped()) : 0));
  if (left > 0) unsent_[key] = left;
  if (!waiting) return;
  for (const int64_t flow : waiting.mapped()) Send(Decode(flow));
}

void SimulatedServers::OnSent(int64_t number) {
  const Flow flow = Decode(number);
  if (flow.values || !EndOne(flow, &sent_)) return;
  events_.exchanged(served_.ranks[flow.replica], flow.clock, served_.stage, served_.groups[flow.replica][flow.place]);
}

void SimulatedServers::OnArrived(int64_t number) {
  const Flow flow = Decode(number);
  if (flow.values) {
    if (!EndOne(flow, &came_)) return;
    events_.values(served_.ranks[flow.replica], flow.clock, served_.stage, served_.groups[flow.replica][flow.place]);
    return;
  }
  const auto arrived = arrived_.try_emplace(PieceKey(flow)).first;
  if (++arrived->second < std::ssize(served_.ranks)) return;
  arrived_.erase(arrived);
  const SimulatedServed::Piece& piece = served_.pieces[flow.place][flow.piece];
  events_.exchanged(served_.servers[piece.server], flow.clock, served_.server_stage, piece.group);
}

}  // namespace hp
