// A chunk's way, in the tree that DirectPlan has for it: each replica adds its children's parts to its own once all are
// there, and sends the sum to its parent, rounded where it lies if that crosses the network; the owner makes the sum of
// all and sends it to its children, where it lands in what the part was sent from, and they pass it on. Nothing else
// connects the chunks, so many of them, both ways and of several collectives, are on their way at once.
//
// The parts of a chunk land in a set of slots, one for each child. A replica has kSets of them and grants them in one
// order of all chunks, the same everywhere; a set is free again when the sum has gone out. So all replicas that add
// parts of the oldest chunk have a set for it, and wait for nothing but these parts and its sum: nothing can deadlock.
// At most kWrites chunks are handed to the links, because the tensors of pipelines share the host's network.
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

/// What is added to a chunk's own values.
struct Parts {
  /// Of this host, float32, in the order of replicas; null: the values themselves.
  std::vector<const float*> here;
  /// By host: the sum of its replicas; null: this one's. Empty: the sum of this host is all that is wanted.
  std::vector<const std::byte*> hosts;
};

/// n values of `at` on, in kLanes lanes.
void Load(const float* at, size_t n, float* lanes) { std::memcpy(lanes, at, n * sizeof(float)); }

void AddLanes(const float* added, float* sum) {
#pragma omp simd
  for (size_t i = 0; i < kLanes; ++i) sum[i] += added[i];
}

/// What lanes are after a way over the network; bits: what crosses it.
void RoundLanes(float* lanes, uint16_t* bits) {
#pragma omp simd
  for (size_t i = 0; i < kLanes; ++i) {
    bits[i] = ToBFloat16(lanes[i]);
    lanes[i] = FromBFloat16(bits[i]);
  }
}

/// The sum of this host's parts of n values from `begin` on.
void AddHere(const Parts& parts, const float* values, size_t begin, size_t n, float* sum) {
  for (size_t i = 0; i < parts.here.size(); ++i) {
    float added[kLanes] = {};
    Load((parts.here[i] != nullptr ? parts.here[i] : values) + begin, n, added);
    if (i == 0) {
      std::copy(added, added + kLanes, sum);
    } else {
      AddLanes(added, sum);
    }
  }
}

/// values = the sum of `parts`. @param out null: exact, no host's sum is rounded; else the sum of all in 16 bits goes
/// there too, which may be the first of `parts.here` or of `parts.hosts`.
void Add(const Parts& parts, std::span<float> values, std::byte* out) {
  InLanes(values.size(), [&](size_t begin, size_t n) {
    uint16_t bits[kLanes] = {};
    float here[kLanes] = {}, sum[kLanes] = {};
    AddHere(parts, values.data(), begin, n, here);
    if (parts.hosts.empty()) {
      std::memcpy(values.data() + begin, here, n * sizeof(float));
      return;
    }
    for (size_t host = 0; host < parts.hosts.size(); ++host) {
      float added[kLanes] = {};
      if (parts.hosts[host] == nullptr) {
        std::copy(here, here + kLanes, added);
        if (out != nullptr) RoundLanes(added, bits);
      } else if (out == nullptr) {
        std::memcpy(added, parts.hosts[host] + begin * sizeof(float), n * sizeof(float));
      } else {
        std::memcpy(bits, parts.hosts[host] + begin * sizeof(uint16_t), n * sizeof(uint16_t));
#pragma omp simd
        for (size_t i = 0; i < kLanes; ++i) added[i] = FromBFloat16(bits[i]);
      }
      if (host == 0) {
        std::copy(added, added + kLanes, sum);
      } else {
        AddLanes(added, sum);
      }
    }
    if (out != nullptr) {
      RoundLanes(sum, bits);
      std::memcpy(out + begin * sizeof(uint16_t), bits, n * sizeof(uint16_t));
    }
    std::memcpy(values.data() + begin, sum, n * sizeof(float));
  });
}

/// Of a slot: the largest part that comes here.
size_t SlotBytes(const DirectPlan& plan) {
  size_t bytes = 0;
  for (int collective = 0; collective < std::ssize(plan.collectives()); ++collective) {
    for (int block = 0; block < plan.size(); ++block) {
      const size_t values = static_cast<size_t>(plan.ValuesOf(collective, block, 0).size());
      for (const int child : plan.children(block)) {
        bytes = std::max(bytes, values * plan.ValueBytes(collective, DirectPlan::kUp, child, plan.rank()));
      }
    }
  }
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Of a set: the most children that this replica has.
size_t SlotsOfSet(const DirectPlan& plan) {
  size_t slots = 0;
  for (int block = 0; block < plan.size(); ++block) slots = std::max(slots, plan.children(block).size());
  return slots;
}

}  // namespace

StatusOr<std::unique_ptr<Allreduce>> DirectAllreduce::Create(DirectPlan plan, PeerLinks* links, DoneSink on_done) {
  const size_t bytes = BytesFor(plan);
  std::unique_ptr<DirectAllreduce> sums(new DirectAllreduce(std::move(plan), links, std::move(on_done)));
  HP_ASSIGN_OR_RETURN(sums->scratch_, links->Allocate(bytes));
  HP_ASSIGN_OR_RETURN(sums->registered_, links->Register(sums->scratch_.span()));
  return std::unique_ptr<Allreduce>(std::move(sums));
}

size_t DirectAllreduce::BytesFor(const DirectPlan& plan) { return kSets * SlotsOfSet(plan) * SlotBytes(plan); }

DirectAllreduce::DirectAllreduce(DirectPlan plan, PeerLinks* links, DoneSink on_done)
    : plan_(std::move(plan)),
      links_(links),
      sums_(&plan_, std::move(on_done)),
      slot_bytes_(SlotBytes(plan_)),
      slots_of_set_(SlotsOfSet(plan_)) {
  for (int set = kSets; set-- > 0;) free_sets_.push_back(set);
}

uint64_t DirectAllreduce::TransfersOf(int collective) const {
  uint64_t transfers = 0;
  for (int block = 0; block < plan_.size(); ++block) {
    const uint64_t peers = plan_.children(block).size() + (plan_.parent(block) >= 0 ? 1 : 0);
    transfers += 2 * peers * plan_.ChunksOf(collective, block);  // a part and the sum
  }
  return transfers;
}

Status DirectAllreduce::Start(uint64_t clock, int collective, std::span<float> values) {
  if (!sums_.Start(clock, collective, values, TransfersOf(collective))) return OkStatus();
  for (uint32_t chunk = 0; chunk < plan_.collectives()[collective].chunks; ++chunk) {
    for (int block = 0; block < plan_.size(); ++block) {
      if (chunk >= plan_.ChunksOf(collective, block)) continue;
      const Key key{clock, {collective, block, chunk}};
      if (!plan_.children(block).empty()) {
        wanted_.push_back(key);
      } else if (plan_.parent(block) >= 0) {
        Ready(key, Way::kUp, plan_.parent(block));
      }
    }
  }
  return Post();
}

Status DirectAllreduce::OnGranted(int peer, const LinkPlace& place, const LinkGrant& grant) {
  const SendKey key = SendKeyOf(peer, place);
  if (ready_.erase(key) == 0) {
    granted_.emplace(key, grant);
    return OkStatus();
  }
  sendable_.emplace(key, grant);
  return Post();
}

Status DirectAllreduce::OnArrived(int peer, const LinkPlace& place) {
  const auto [chunk, way] = plan_.TransferOf(place.number, peer, true);
  const Key key{place.clock, chunk};
  if (way == Way::kUp) {
    const auto adding = adding_.find(key);
    CHECK(adding != adding_.end()) << "a place that was not granted arrived";
    if (--adding->second.missing == 0) AddParts(key, adding->second);
  } else {
    TakeSum(key);
  }
  sums_.EndOne(place);
  return Post();
}

Status DirectAllreduce::OnWritten(int peer, const LinkPlace& place) {
  --writes_;
  const auto [chunk, way] = plan_.TransferOf(place.number, peer, false);
  const Key key{place.clock, chunk};
  if (way == Way::kUp) {
    HP_RETURN_IF_ERROR(links_->Grant(peer, PlaceOf(key, Way::kDown, peer), SumPlace(key)));
  } else {
    const auto adding = adding_.find(key);
    if (--adding->second.unsent == 0) {
      free_sets_.push_back(adding->second.set);
      adding_.erase(adding);
    }
  }
  sums_.EndOne(place);
  return Post();
}

std::span<float> DirectAllreduce::ValuesOf(const Key& key) {
  const auto [collective, block, chunk] = key.chunk;
  return sums_.ValuesOf({key.clock, plan_.Number({collective, 0, chunk})}, plan_.ValuesOf(collective, block, chunk));
}

std::span<std::byte> DirectAllreduce::Slot(int set, size_t index, size_t bytes) {
  return scratch_.span().subspan((static_cast<size_t>(set) * slots_of_set_ + index) * slot_bytes_, bytes);
}

std::span<std::byte> DirectAllreduce::SumPlace(const Key& key) {
  const std::span<float> values = ValuesOf(key);
  return exact(key) ? std::as_writable_bytes(values) : UpperHalf(values);
}

void DirectAllreduce::AddParts(const Key& key, const Adding& adding) {
  const int block = key.chunk.block, parent = plan_.parent(block);
  const std::vector<int>& children = plan_.children(block);
  Parts parts;
  if (parent < 0) parts.hosts.resize(static_cast<size_t>(plan_.hosts()));
  bool own = false;
  for (size_t i = 0; i < children.size(); ++i) {
    const std::byte* const part = Slot(adding.set, i, 0).data();
    if (plan_.Crosses(children[i], plan_.rank())) {
      parts.hosts[static_cast<size_t>(plan_.host_of(children[i]))] = part;
      continue;
    }
    if (!own && children[i] > plan_.rank()) {
      own = true;
      parts.here.push_back(nullptr);
    }
    parts.here.push_back(reinterpret_cast<const float*>(part));
  }
  if (!own) parts.here.push_back(nullptr);
  const bool rounds = parent < 0 && !exact(key);
  Add(parts, ValuesOf(key), rounds ? Slot(adding.set, 0, 0).data() : nullptr);
  if (parent >= 0) return Ready(key, Way::kUp, parent);
  for (const int child : children) Ready(key, Way::kDown, child);
}

void DirectAllreduce::TakeSum(const Key& key) {
  const std::vector<int>& children = plan_.children(key.chunk.block);
  if (!children.empty() && !exact(key)) {
    const std::span<const std::byte> bits = SumPlace(key);
    std::memcpy(Slot(adding_.at(key).set, 0, bits.size()).data(), bits.data(), bits.size());
  }
  if (!exact(key)) WidenInPlace(ValuesOf(key));
  for (const int child : children) Ready(key, Way::kDown, child);
}

void DirectAllreduce::Ready(const Key& chunk, Way way, int peer) {
  const SendKey key = SendKeyOf(peer, PlaceOf(chunk, way, peer));
  const auto granted = granted_.extract(key);
  if (granted) {
    sendable_.emplace(key, granted.mapped());
  } else {
    ready_.insert(key);
  }
}

std::span<const std::byte> DirectAllreduce::SourceOf(int peer, const LinkPlace& place) {
  const auto [chunk, way] = plan_.TransferOf(place.number, peer, false);
  const Key key{place.clock, chunk};
  const std::span<float> values = ValuesOf(key);
  if (plan_.ValueBytes(chunk.collective, way, plan_.rank(), peer) == sizeof(float)) return std::as_bytes(values);
  if (way == Way::kUp) return RoundInPlace(values);
  return Slot(adding_.at(key).set, 0, values.size() * sizeof(uint16_t));
}

Status DirectAllreduce::Post() {
  while (!wanted_.empty() && !free_sets_.empty()) {
    const Key key = wanted_.front();
    wanted_.pop_front();
    const int set = free_sets_.back();
    free_sets_.pop_back();
    const std::vector<int>& children = plan_.children(key.chunk.block);
    const int count = static_cast<int>(children.size());
    adding_[key] = {.set = set, .missing = count, .unsent = count};
    const size_t values = ValuesOf(key).size();
    for (size_t i = 0; i < children.size(); ++i) {
      const int child = children[i];
      const size_t bytes = values * plan_.ValueBytes(key.chunk.collective, Way::kUp, child, plan_.rank());
      HP_RETURN_IF_ERROR(links_->Grant(child, PlaceOf(key, Way::kUp, child), Slot(set, i, bytes)));
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
