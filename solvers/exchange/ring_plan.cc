#include "solvers/exchange/ring_plan.h"

#include "glog/logging.h"

#include <algorithm>
#include <utility>

namespace hp {
namespace {

constexpr size_t kChunksOfBlock = 16;

}  // namespace

// A large parameter does not close the bucket: small ones before and after it share a collective.
RingPlan::RingPlan(Options options) : options_(std::move(options)), collective_of_(options_.counts.size()) {
  CHECK(options_.size >= 1 && options_.rank >= 0 && options_.rank < options_.size);
  CHECK(options_.min_chunk_bytes >= sizeof(float) && options_.min_chunk_bytes <= options_.max_chunk_bytes);
  Collective bucket;
  for (int param = 0; param < static_cast<int>(options_.counts.size()); ++param) {
    const size_t count = options_.counts[param];
    if (count * sizeof(float) >= options_.bucket_bytes) {
      Close({.params = {param}, .count = count});
      continue;
    }
    bucket.params.push_back(param);
    bucket.count += count;
    if (bucket.count * sizeof(float) >= options_.bucket_bytes) Close(std::exchange(bucket, {}));
  }
  if (!bucket.params.empty()) Close(std::move(bucket));
}

void RingPlan::Close(Collective collective) {
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
  places_ += collectives_[index].chunks * static_cast<uint32_t>(steps());
}

uint32_t RingPlan::Number(const Transfer& transfer) const {
  const Collective& collective = collectives_[transfer.collective];
  return collective.first + static_cast<uint32_t>(transfer.step) * collective.chunks + transfer.chunk;
}

RingPlan::Transfer RingPlan::At(uint32_t number) const {
  CHECK_LT(number, places_);
  const auto next = std::upper_bound(collectives_.begin(), collectives_.end(), number,
                                     [](uint32_t n, const Collective& collective) { return n < collective.first; });
  const Collective& collective = *std::prev(next);
  const uint32_t within = number - collective.first;
  return {.collective = static_cast<int>(&collective - collectives_.data()),
          .step = static_cast<int>(within / collective.chunks),
          .chunk = within % collective.chunks};
}

std::vector<size_t> RingPlan::SentBytes() const {
  std::vector<size_t> bytes(places_);
  for (uint32_t number = 0; number < places_; ++number) bytes[number] = Sent(At(number)).size() * sizeof(float);
  return bytes;
}

int RingPlan::SentBlock(int step) const {
  return ((options_.rank - step) % options_.size + options_.size) % options_.size;
}

Range RingPlan::BlockOf(int collective, int block) const {
  return PartOf(static_cast<int64_t>(collectives_[collective].count), block, options_.size);
}

uint32_t RingPlan::ChunksOf(int collective, int block) const {
  const int64_t chunk = static_cast<int64_t>(collectives_[collective].chunk);
  return static_cast<uint32_t>((BlockOf(collective, block).size() + chunk - 1) / chunk);
}

Range RingPlan::ValuesOf(const Transfer& transfer, int block) const {
  const int64_t chunk = static_cast<int64_t>(collectives_[transfer.collective].chunk);
  const Range values = BlockOf(transfer.collective, block);
  const int64_t begin = std::min(values.begin + transfer.chunk * chunk, values.end);
  return {begin, std::min(begin + chunk, values.end)};
}

}  // namespace hp
