// A chunk's way: each replica rounds its part where it lies and sends it to the chunk's owner; the owner adds the parts
// once all are there and sends the sum, which lands where the part was sent from. Nothing else connects the chunks, so
// many of them, of both steps and of several collectives, are on their way at once.
//
// The parts of a chunk land in a set of slots, one for each other replica. An owner has kSets of them and grants them
// in the order of the plan; a set is free again when the sum has gone out, which waits for nothing but the places that
// the others grant when their parts have left. So the oldest chunk that somebody waits for always gets on, and nothing
// can deadlock. At most kWrites chunks are handed to the links, because the tensors of pipelines share the host's
// network.
#include "solvers/exchange/direct_allreduce.h"

#include "base/bfloat16.h"

#include "glog/logging.h"

#include <algorithm>
#include <cstring>

namespace hp {
namespace {

constexpr int kSets = 4, kWrites = 2;
constexpr size_t kLanes = 16;  // values that are converted together
constexpr size_t kAlignment = 64;

/// Calls `convert(begin, n)` for the values of [0, count) in ascending order, mostly with n = kLanes.
template <typename Convert>
void InLanes(size_t count, const Convert& convert) {
  size_t begin = 0;
  for (; begin + kLanes <= count; begin += kLanes) convert(begin, kLanes);
  if (begin < count) convert(begin, count - begin);
}

/// Rounds `values` into the first half of their own memory, which no value leaves that was not read before.
std::span<const std::byte> RoundInPlace(std::span<float> values) {
  std::byte* const bytes = std::as_writable_bytes(values).data();
  InLanes(values.size(), [bytes](size_t begin, size_t n) {
    float from[kLanes] = {};
    uint16_t to[kLanes];
    std::memcpy(from, bytes + begin * sizeof(float), n * sizeof(float));
#pragma omp simd
    for (size_t i = 0; i < kLanes; ++i) to[i] = ToBFloat16(from[i]);
    std::memcpy(bytes + begin * sizeof(uint16_t), to, n * sizeof(uint16_t));
  });
  return {bytes, values.size() * sizeof(uint16_t)};
}

/// The half of the values' own memory from which WidenInPlace takes bfloat16.
std::span<std::byte> UpperHalf(std::span<float> values) {
  return std::as_writable_bytes(values).subspan(values.size() * sizeof(uint16_t));
}

/// In ascending order what is written never reaches what was not read yet.
void WidenInPlace(std::span<float> values) {
  std::byte* const to_bytes = std::as_writable_bytes(values).data();
  const std::byte* const from_bytes = UpperHalf(values).data();
  InLanes(values.size(), [to_bytes, from_bytes](size_t begin, size_t n) {
    uint16_t from[kLanes] = {};
    float to[kLanes];
    std::memcpy(from, from_bytes + begin * sizeof(uint16_t), n * sizeof(uint16_t));
#pragma omp simd
    for (size_t i = 0; i < kLanes; ++i) to[i] = FromBFloat16(from[i]);
    std::memcpy(to_bytes + begin * sizeof(float), to, n * sizeof(float));
  });
}

/// values = the sum of `parts`, in their order, rounded; and the same in 16 bits to `out`, which may be one of them.
/// @param parts null: the values themselves, rounded.
void AddRounded(const std::vector<const std::byte*>& parts, std::span<float> values, std::byte* out) {
  InLanes(values.size(), [&](size_t begin, size_t n) {
    float sum[kLanes] = {};
    uint16_t bits[kLanes] = {};
    for (size_t part = 0; part < parts.size(); ++part) {
      if (parts[part] == nullptr) {
        float own[kLanes] = {};
        std::memcpy(own, values.data() + begin, n * sizeof(float));
#pragma omp simd
        for (size_t i = 0; i < kLanes; ++i) bits[i] = ToBFloat16(own[i]);
      } else {
        std::memcpy(bits, parts[part] + begin * sizeof(uint16_t), n * sizeof(uint16_t));
      }
      if (part == 0) {
#pragma omp simd
        for (size_t i = 0; i < kLanes; ++i) sum[i] = FromBFloat16(bits[i]);
      } else {
#pragma omp simd
        for (size_t i = 0; i < kLanes; ++i) sum[i] += FromBFloat16(bits[i]);
      }
    }
#pragma omp simd
    for (size_t i = 0; i < kLanes; ++i) {
      bits[i] = ToBFloat16(sum[i]);
      sum[i] = FromBFloat16(bits[i]);
    }
    std::memcpy(out + begin * sizeof(uint16_t), bits, n * sizeof(uint16_t));
    std::memcpy(values.data() + begin, sum, n * sizeof(float));
  });
}

/// The same of float32, without rounding.
void AddExact(const std::vector<const std::byte*>& parts, std::span<float> values) {
  InLanes(values.size(), [&](size_t begin, size_t n) {
    float sum[kLanes] = {};
    for (size_t part = 0; part < parts.size(); ++part) {
      const std::byte* const from = parts[part] != nullptr ? parts[part] : std::as_bytes(values).data();
      float added[kLanes] = {};
      std::memcpy(added, from + begin * sizeof(float), n * sizeof(float));
      if (part == 0) {
        std::copy(added, added + kLanes, sum);
        continue;
      }
#pragma omp simd
      for (size_t i = 0; i < kLanes; ++i) sum[i] += added[i];
    }
    std::memcpy(values.data() + begin, sum, n * sizeof(float));
  });
}

size_t SlotBytes(const DirectPlan& plan) {
  size_t bytes = 0;
  for (int i = 0; i < std::ssize(plan.collectives()); ++i) {
    const size_t values = static_cast<size_t>(plan.ValuesOf(i, plan.rank(), 0).size());
    bytes = std::max(bytes, values * plan.ValueBytes(i));
  }
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

StatusOr<std::unique_ptr<Allreduce>> DirectAllreduce::Create(DirectPlan plan, PeerLinks* links, DoneSink on_done) {
  const size_t bytes = BytesFor(plan);
  std::unique_ptr<DirectAllreduce> sums(new DirectAllreduce(std::move(plan), links, std::move(on_done)));
  HP_ASSIGN_OR_RETURN(sums->scratch_, links->Allocate(bytes));
  HP_ASSIGN_OR_RETURN(sums->registered_, links->Register(sums->scratch_.span()));
  return std::unique_ptr<Allreduce>(std::move(sums));
}

size_t DirectAllreduce::BytesFor(const DirectPlan& plan) {
  return kSets * static_cast<size_t>(plan.size() - 1) * SlotBytes(plan);
}

DirectAllreduce::DirectAllreduce(DirectPlan plan, PeerLinks* links, DoneSink on_done)
    : plan_(std::move(plan)), links_(links), sums_(&plan_, std::move(on_done)), slot_bytes_(SlotBytes(plan_)) {
  for (int set = kSets; set-- > 0;) free_sets_.push_back(set);
}

uint64_t DirectAllreduce::TransfersOf(int collective) const {
  uint64_t transfers = 0;
  for (int distance = 1; distance < plan_.size(); ++distance) {
    transfers += plan_.ChunksOf(collective, plan_.rank()) + plan_.ChunksOf(collective, PeerAt(distance));
  }
  return 2 * transfers;  // parts and sums
}

Status DirectAllreduce::Start(uint64_t clock, int collective, std::span<float> values) {
  if (!sums_.Start(clock, collective, values, TransfersOf(collective))) return OkStatus();
  for (uint32_t chunk = 0; chunk < plan_.ChunksOf(collective, plan_.rank()); ++chunk) {
    wanted_.push_back({clock, plan_.Number({collective, DirectPlan::kParts, chunk})});
  }
  for (int distance = 1; distance < plan_.size(); ++distance) {
    const int peer = PeerAt(distance);
    for (uint32_t chunk = 0; chunk < plan_.ChunksOf(collective, peer); ++chunk) {
      Ready(peer, {clock, plan_.Number({collective, DirectPlan::kParts, chunk})});
    }
  }
  return Post();
}

Status DirectAllreduce::OnGranted(int peer, const LinkPlace& place, const LinkGrant& grant) {
  const Key key = KeyOf(peer, place);
  if (ready_.erase(key) == 0) {
    granted_.emplace(key, grant);
    return OkStatus();
  }
  sendable_.emplace(key, grant);
  return Post();
}

Status DirectAllreduce::OnArrived(int peer, const LinkPlace& place) {
  if (plan_.At(place.number).step == DirectPlan::kParts) {
    const auto owned = owned_.find(place);
    CHECK(owned != owned_.end()) << "a place that was not granted arrived";
    if (--owned->second.missing == 0) AddParts(place, owned->second);
  } else if (!exact(place)) {
    WidenInPlace(ValuesOf(place, plan_.rank(), peer));
  }
  sums_.EndOne(place);
  return Post();
}

Status DirectAllreduce::OnWritten(int peer, const LinkPlace& place) {
  --writes_;
  if (plan_.At(place.number).step == DirectPlan::kParts) {
    const std::span<float> values = ValuesOf(place, peer, plan_.rank());
    HP_RETURN_IF_ERROR(links_->Grant(peer, PlaceOf(place, DirectPlan::kSum),
                                     exact(place) ? std::as_writable_bytes(values) : UpperHalf(values)));
  } else {
    const auto owned = owned_.find(PlaceOf(place, DirectPlan::kParts));
    if (--owned->second.unsent == 0) {
      free_sets_.push_back(owned->second.set);
      owned_.erase(owned);
    }
  }
  sums_.EndOne(place);
  return Post();
}

LinkPlace DirectAllreduce::PlaceOf(const LinkPlace& place, DirectPlan::Step step) const {
  DirectPlan::Transfer transfer = plan_.At(place.number);
  transfer.step = step;
  return {place.clock, plan_.Number(transfer)};
}

std::span<float> DirectAllreduce::ValuesOf(const LinkPlace& place, int granter, int writer) {
  const auto [collective, step, chunk] = plan_.At(place.number);
  return sums_.ValuesOf(place, plan_.ValuesOf(collective, DirectPlan::BlockFor(step, granter, writer), chunk));
}

std::span<std::byte> DirectAllreduce::Slot(int set, int distance, size_t bytes) {
  const size_t slot = static_cast<size_t>(set) * (plan_.size() - 1) + distance - 1;
  return scratch_.span().subspan(slot * slot_bytes_, bytes);
}

void DirectAllreduce::AddParts(const LinkPlace& place, const Owned& owned) {
  const std::span<float> values = ValuesOf(place, plan_.rank(), plan_.rank());
  std::vector<const std::byte*> parts;
  for (int replica = 0; replica < plan_.size(); ++replica) {
    parts.push_back(replica == plan_.rank() ? nullptr : Slot(owned.set, DistanceOf(replica), 0).data());
  }
  if (exact(place)) {
    AddExact(parts, values);
  } else {
    AddRounded(parts, values, Slot(owned.set, 1, 0).data());
  }
  for (int distance = 1; distance < plan_.size(); ++distance) {
    Ready(PeerAt(distance), PlaceOf(place, DirectPlan::kSum));
  }
}

void DirectAllreduce::Ready(int peer, const LinkPlace& place) {
  const Key key = KeyOf(peer, place);
  const auto granted = granted_.extract(key);
  if (granted) {
    sendable_.emplace(key, granted.mapped());
  } else {
    ready_.insert(key);
  }
}

std::span<const std::byte> DirectAllreduce::SourceOf(int peer, const LinkPlace& place) {
  const std::span<float> values = ValuesOf(place, peer, plan_.rank());
  if (exact(place)) return std::as_bytes(values);
  if (plan_.At(place.number).step == DirectPlan::kParts) return RoundInPlace(values);
  return Slot(owned_.at(PlaceOf(place, DirectPlan::kParts)).set, 1, values.size() * sizeof(uint16_t));
}

Status DirectAllreduce::Post() {
  while (!wanted_.empty() && !free_sets_.empty()) {
    const LinkPlace place = wanted_.front();
    wanted_.pop_front();
    const int set = free_sets_.back();
    free_sets_.pop_back();
    owned_[place] = {.set = set, .missing = plan_.size() - 1, .unsent = plan_.size() - 1};
    const size_t values = ValuesOf(place, plan_.rank(), plan_.rank()).size();
    const size_t bytes = values * plan_.ValueBytes(plan_.At(place.number).collective);
    for (int distance = 1; distance < plan_.size(); ++distance) {
      HP_RETURN_IF_ERROR(links_->Grant(PeerAt(distance), place, Slot(set, distance, bytes)));
    }
  }
  while (!sendable_.empty() && writes_ < kWrites) {
    const auto [key, grant] = *sendable_.begin();
    sendable_.erase(sendable_.begin());
    ++writes_;
    const int peer = PeerAt(key.second);
    HP_RETURN_IF_ERROR(links_->Write(peer, key.first, grant, SourceOf(peer, key.first)));
  }
  return OkStatus();
}

}  // namespace hp
