#include "scheduler/simulator/simulated_rings.h"

#include "scheduler/simulator/simulated_network.h"

#include <algorithm>
#include <utility>

namespace hp {
namespace {

constexpr size_t kUnderWay = 2;  // Ring::kUnderWay

}  // namespace

SimulatedRing::SimulatedRing(int index, const SimulatedExchange* exchange, const SimulatedNetwork* network,
                             EventQueue* queue, Events events)
    : index_(index),
      exchange_(*exchange),
      ring_(exchange->on_links.empty() ? exchange->ranks : exchange->on_links),
      network_(*network),
      queue_(queue),
      events_(std::move(events)),
      parts_of_(exchange->collectives.size()) {
  for (const std::vector<int>& collectives : exchange_.collectives_of) {
    for (const int collective : collectives) parts_of_[collective] += static_cast<int>(exchange_.ranks.size());
  }
}

int64_t SimulatedRing::FlowBytes(int64_t collective) const {
  const int64_t replicas = std::ssize(ring_);
  return static_cast<int64_t>(__int128{2} * (replicas - 1) * Of(collective).bytes / replicas);
}

void SimulatedRing::Add(int64_t clock, int place) {
  for (const int collective : exchange_.collectives_of[place]) {
    ++added_[clock * std::ssize(exchange_.collectives) + collective];
  }
  StartNext();
}

void SimulatedRing::StartNext() {
  while (under_way_.size() < kUnderWay) {
    const auto added = added_.find(next_);
    if (added == added_.end() || added->second < parts_of_[static_cast<size_t>(next_) % exchange_.collectives.size()]) {
      return;
    }
    added_.erase(added);
    const int64_t collective = next_++, bytes = FlowBytes(collective);
    const int replicas = static_cast<int>(ring_.size());
    int64_t step_ns = 0;
    const auto chunk = static_cast<double>(std::min(Of(collective).chunk_bytes, Of(collective).bytes / replicas));
    for (int r = 0; r < replicas; ++r) {
      const Rank from = ring_[r], to = ring_[(r + 1) % replicas];
      const double chunk_ns = 1e9 * chunk / network_.BytesPerSecond(from, to);
      step_ns = std::max(step_ns, network_.LatencyNs(from, to) + static_cast<int64_t>(chunk_ns));
    }
    under_way_[collective] = {replicas, queue_->now_ns() + 2 * (replicas - 1) * step_ns};
    for (int r = 0; r < replicas; ++r) {
      events_.send(ring_[r], ring_[(r + 1) % replicas], collective, bytes);
    }
  }
}

void SimulatedRing::OnArrived(int64_t collective) {
  UnderWay& sum = under_way_.at(collective);
  if (--sum.flows > 0) return;
  queue_->At(std::max(queue_->now_ns(), sum.earliest_ns), {SimulatedEvent::kSummed, index_, collective});
}

// Sums may end in another order than they started: a group is summed when all of its collectives are.
void SimulatedRing::OnSummed(int64_t collective) {
  under_way_.erase(collective);
  const int64_t clock = collective / std::ssize(exchange_.collectives);
  const int number = static_cast<int>(collective % std::ssize(exchange_.collectives));
  StartNext();
  for (int place = 0; place < static_cast<int>(exchange_.collectives_of.size()); ++place) {
    const std::vector<int>& of_group = exchange_.collectives_of[place];
    if (std::find(of_group.begin(), of_group.end(), number) == of_group.end()) continue;
    const auto summed = summed_.try_emplace({clock, place}).first;
    if (++summed->second < static_cast<int>(of_group.size())) continue;
    summed_.erase(summed);
    events_.summed(clock, place);
  }
}

}  // namespace hp
