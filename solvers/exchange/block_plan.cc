#include "solvers/exchange/block_plan.h"

#include "glog/logging.h"

#include <algorithm>
#include <array>
#include <utility>

namespace hp {
namespace {

constexpr size_t kChunksOfBlock = 16;

int LastOf(const BlockPlan::Collective& bucket) { return bucket.params.empty() ? -1 : bucket.params.back(); }

}  // namespace

// A large parameter does not close the bucket: small ones before and after it share a collective. What is exact and
// what is not have a bucket each.
BlockPlan::BlockPlan(Options options, int steps)
    : options_(std::move(options)), steps_(steps), collective_of_(options_.counts.size()) {
  CHECK(options_.size >= 1 && options_.rank >= 0 && options_.rank < options_.size);
  CHECK(options_.exact.empty() || options_.exact.size() == options_.counts.size());
  CHECK(options_.min_chunk_bytes >= sizeof(float) && options_.min_chunk_bytes <= options_.max_chunk_bytes);
  std::array<Collective, 2> buckets = {Collective{.exact = false}, Collective{.exact = true}};
  for (int param = 0; param < static_cast<int>(options_.counts.size()); ++param) {
    const size_t count = options_.counts[param];
    const bool exact = !options_.exact.empty() && options_.exact[param];
    if (count * sizeof(float) >= options_.bucket_bytes) {
      Close({.params = {param}, .exact = exact, .count = count});
      continue;
    }
    Collective& bucket = buckets[exact ? 1 : 0];
    bucket.params.push_back(param);
    bucket.count += count;
    if (bucket.count * sizeof(float) >= options_.bucket_bytes) Close(std::exchange(bucket, {.exact = exact}));
  }
  if (LastOf(buckets[0]) > LastOf(buckets[1])) std::swap(buckets[0], buckets[1]);
  for (Collective& bucket : buckets) {
    if (!bucket.params.empty()) Close(std::move(bucket));
  }
}

void BlockPlan::Close(Collective collective) {
  for (int param : collective.params) collective_of_[param] = static_cast<int>(collectives_.size());
  const size_t part = collective.count / options_.size / kChunksOfBlock;
  collective.chunk =
      std::clamp(part, options_.min_chunk_bytes / sizeof(float), options_.max_chunk_bytes / sizeof(float));
  collective.chunk = std::max(collective.chunk, (collective.count + kMaxChunks - 1) / kMaxChunks);
  collective.first = places_;
  collectives_.push_back(std::move(collective));
  const int index = static_cast<int>(collectives_.size()) - 1;
  for (int block = 0; block < options_.size; ++block) {
    collectives_[index].chunks = std::max(collectives_[index].chunks, ChunksOf(index, block));
  }
  places_ += collectives_[index].chunks * static_cast<uint32_t>(steps_);
}

size_t BlockPlan::LargestChunk() const {
  size_t largest = 0;
  for (const Collective& collective : collectives_) {
    const size_t block = (collective.count + options_.size - 1) / options_.size;
    largest = std::max(largest, std::min(collective.chunk, block));
  }
  return largest;
}

uint32_t BlockPlan::Number(const Transfer& transfer) const {
  const Collective& collective = collectives_[transfer.collective];
  return collective.first + static_cast<uint32_t>(transfer.step) * collective.chunks + transfer.chunk;
}

BlockPlan::Transfer BlockPlan::At(uint32_t number) const {
  CHECK_LT(number, places_);
  const auto next = std::upper_bound(collectives_.begin(), collectives_.end(), number,
                                     [](uint32_t n, const Collective& collective) { return n < collective.first; });
  const Collective& collective = *std::prev(next);
  const uint32_t within = number - collective.first;
  return {.collective = static_cast<int>(&collective - collectives_.data()),
          .step = static_cast<int>(within / collective.chunks),
          .chunk = within % collective.chunks};
}

Range BlockPlan::BlockOf(int collective, int block) const {
  return PartOf(static_cast<int64_t>(collectives_[collective].count), block, options_.size);
}

uint32_t BlockPlan::ChunksOf(int collective, int block) const {
  const int64_t chunk = static_cast<int64_t>(collectives_[collective].chunk);
  return static_cast<uint32_t>((BlockOf(collective, block).size() + chunk - 1) / chunk);
}

Range BlockPlan::ValuesOf(int collective, int block, uint32_t chunk) const {
  const int64_t values = static_cast<int64_t>(collectives_[collective].chunk);
  const Range all = BlockOf(collective, block);
  const int64_t begin = std::min(all.begin + chunk * values, all.end);
  return {begin, std::min(begin + values, all.end)};
}

}  // namespace hp
