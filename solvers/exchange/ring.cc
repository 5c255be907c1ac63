// A chunk's way through a replica: it arrives from the left, is added (reduce-scatter) or is the sum (allgather), and
// is ready for the right. Nothing else connects the steps, so chunks of all steps and of several collectives are on
// their way at once.
//
// Three things bound what is under way. What is added on arrival lands in one of kSlots slots, which stay in the cache
// between the landing and the addition; slots are granted in the order of the plan, so the oldest chunk that somebody
// waits for always has one, and nothing can deadlock. A sum lands in the gradient itself: its place is granted when
// what lay there has been sent. And at most kWrites chunks are handed to the link, because the tensors of pipelines go
// over the same connection, behind what it has been given; of those that could go, the one of the earliest place goes
// first.
#include "solvers/exchange/ring.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {
namespace {

// One lands or is written while the other is added or waits. More of them leave the processor's caches: four of each
// cost a tenth more processor time where replicas share cores (exchange_speed), and gain nothing.
constexpr int kSlots = 2, kWrites = 2;

void AddTo(std::span<float> sum, std::span<const float> arrived) {
  float* const to = sum.data();
  const float* const from = arrived.data();
  const size_t count = sum.size();
#pragma omp simd
  for (size_t i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace

StatusOr<std::unique_ptr<Allreduce>> Ring::Create(RingPlan plan, PeerLinks* links, DoneSink on_done) {
  std::unique_ptr<Ring> ring(new Ring(std::move(plan), links, std::move(on_done)));
  HP_ASSIGN_OR_RETURN(ring->scratch_, links->Allocate(BytesFor(ring->plan_)));
  HP_ASSIGN_OR_RETURN(ring->registered_, links->Register(ring->scratch_.span()));
  return std::unique_ptr<Allreduce>(std::move(ring));
}

size_t Ring::BytesFor(const RingPlan& plan) {
  return plan.steps() > 0 ? kSlots * plan.LargestChunk() * sizeof(float) : 0;
}

Ring::Ring(RingPlan plan, PeerLinks* links, DoneSink on_done)
    : plan_(std::move(plan)), links_(links), sums_(&plan_, std::move(on_done)), slot_values_(plan_.LargestChunk()) {
  for (int slot = kSlots; slot-- > 0;) free_slots_.push_back(slot);
}

uint64_t Ring::TransfersOf(int collective) const {
  uint64_t transfers = 0;
  for (int step = 0; step < plan_.steps(); ++step) {
    transfers += plan_.SentChunks(collective, step) + plan_.ReceivedChunks(collective, step);
  }
  return transfers;
}

Status Ring::Start(uint64_t clock, int collective, std::span<float> values) {
  if (!sums_.Start(clock, collective, values, TransfersOf(collective))) return OkStatus();
  for (int step = 0; plan_.adds(step); ++step) {
    for (uint32_t chunk = 0; chunk < plan_.ReceivedChunks(collective, step); ++chunk) {
      wanted_.push_back({clock, plan_.Number({collective, step, chunk})});
    }
  }
  for (uint32_t chunk = 0; chunk < plan_.SentChunks(collective, 0); ++chunk) Ready(clock, {collective, 0, chunk});
  return Post();
}

Status Ring::OnGranted(int /*right*/, const LinkPlace& place, const LinkGrant& grant) {
  const auto ready = ready_.find(place);
  if (ready == ready_.end()) {
    granted_.emplace(place, grant);
    return OkStatus();
  }
  sendable_[place] = {grant, ready->second};
  ready_.erase(ready);
  return Post();
}

Status Ring::OnArrived(int /*left*/, const LinkPlace& place) {
  const RingPlan::Transfer transfer = plan_.At(place.number);
  if (plan_.adds(transfer.step)) {
    const std::span<float> values = sums_.ValuesOf(place, plan_.Received(transfer));
    const auto slot = slots_.find(place);
    CHECK(slot != slots_.end()) << "a place that was not granted arrived";
    AddTo(values, Slot(slot->second, values.size()));
    free_slots_.push_back(slot->second);
    slots_.erase(slot);
  }
  if (transfer.step + 1 < plan_.steps()) {
    Ready(place.clock, {transfer.collective, transfer.step + 1, transfer.chunk});
  }
  sums_.EndOne(place);
  return Post();
}

// What was sent in a step of the reduce-scatter is overwritten by its sum, N - 1 steps later.
Status Ring::OnWritten(int /*right*/, const LinkPlace& place) {
  --writes_;
  RingPlan::Transfer transfer = plan_.At(place.number);
  if (plan_.adds(transfer.step)) {
    transfer.step += plan_.steps() / 2;
    const std::span<float> values = sums_.ValuesOf(place, plan_.Received(transfer));
    HP_RETURN_IF_ERROR(
        links_->Grant(plan_.left(), {place.clock, plan_.Number(transfer)}, std::as_writable_bytes(values)));
  }
  sums_.EndOne(place);
  return Post();
}

void Ring::Ready(uint64_t clock, const RingPlan::Transfer& transfer) {
  const LinkPlace place{clock, plan_.Number(transfer)};
  const std::span<const float> source = sums_.ValuesOf(place, plan_.Sent(transfer));
  const auto granted = granted_.find(place);
  if (granted == granted_.end()) {
    ready_[place] = source;
    return;
  }
  sendable_[place] = {granted->second, source};
  granted_.erase(granted);
}

Status Ring::Post() {
  while (!wanted_.empty() && !free_slots_.empty()) {
    const LinkPlace place = wanted_.front();
    wanted_.pop_front();
    slots_[place] = free_slots_.back();
    free_slots_.pop_back();
    const size_t count = static_cast<size_t>(plan_.Received(plan_.At(place.number)).size());
    HP_RETURN_IF_ERROR(links_->Grant(plan_.left(), place, std::as_writable_bytes(Slot(slots_[place], count))));
  }
  while (!sendable_.empty() && writes_ < kWrites) {
    const auto [place, send] = *sendable_.begin();
    sendable_.erase(sendable_.begin());
    ++writes_;
    HP_RETURN_IF_ERROR(links_->Write(plan_.right(), place, send.grant, std::as_bytes(send.source)));
  }
  return OkStatus();
}

}  // namespace hp
