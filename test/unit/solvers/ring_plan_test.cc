#include "solvers/exchange/ring_plan.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <utility>
#include <vector>

namespace hp {
namespace {

RingPlan PlanOf(int rank, int size, std::vector<size_t> counts, size_t bucket_bytes, size_t chunk_bytes) {
  return RingPlan({.rank = rank,
                   .size = size,
                   .counts = std::move(counts),
                   .bucket_bytes = bucket_bytes,
                   .min_chunk_bytes = chunk_bytes,
                   .max_chunk_bytes = chunk_bytes});
}

std::vector<std::vector<int>> ParamsOf(const RingPlan& plan) {
  std::vector<std::vector<int>> params;
  for (const RingPlan::Collective& collective : plan.collectives()) params.push_back(collective.params);
  return params;
}

TEST(RingPlan, SmallParametersShareABucketAroundLargeOnes) {
  const RingPlan plan = PlanOf(0, 2, {3, 10, 4, 3, 1, 12, 0, 2}, 10 * sizeof(float), 8);
  EXPECT_THAT(ParamsOf(plan), testing::ElementsAre(testing::ElementsAre(1), testing::ElementsAre(0, 2, 3),
                                                   testing::ElementsAre(5), testing::ElementsAre(4, 6, 7)));
  EXPECT_EQ(plan.collective_of(3), 1);
  EXPECT_EQ(plan.collectives()[3].count, 3u);
}

// Neighbours name the same transfer by the same number and mean the same values by it.
TEST(RingPlan, NeighboursAgreeOnEveryPlace) {
  for (int size : {2, 3, 5}) {
    for (int rank = 0; rank < size; ++rank) {
      const std::vector<size_t> counts = {40, 1, 0, 17, 2, 4};
      const RingPlan left = PlanOf(rank, size, counts, 16, 12), right = PlanOf((rank + 1) % size, size, counts, 16, 12);
      ASSERT_EQ(left.places(), right.places());
      const std::vector<size_t> bytes = left.SentBytes();
      for (uint32_t number = 0; number < left.places(); ++number) {
        const RingPlan::Transfer transfer = left.At(number);
        EXPECT_EQ(left.Number(transfer), number);
        EXPECT_EQ(left.Sent(transfer), right.Received(transfer)) << size << ", " << rank << ", " << number;
        EXPECT_EQ(bytes[number], left.Sent(transfer).size() * sizeof(float));
        EXPECT_LE(bytes[number], 12u);
        EXPECT_EQ(bytes[number] > 0, transfer.chunk < left.SentChunks(transfer.collective, transfer.step));
      }
    }
  }
}

// Each value is received once to be added, but for those that this replica's own block begins with, and once as a sum.
TEST(RingPlan, EveryValueIsAddedOnEveryReplicaAndComesBack) {
  constexpr int kSize = 4;
  const size_t count = 21;
  for (int rank = 0; rank < kSize; ++rank) {
    const RingPlan plan = PlanOf(rank, kSize, {count}, 0, 8);
    std::vector<int> added(count), summed(count);
    for (uint32_t number = 0; number < plan.places(); ++number) {
      const RingPlan::Transfer transfer = plan.At(number);
      const Range values = plan.Received(transfer);
      for (int64_t i = values.begin; i < values.end; ++i) ++(plan.adds(transfer.step) ? added : summed)[i];
    }
    const Range own = PartOf(count, rank, kSize), last = PartOf(count, (rank + 1) % kSize, kSize);
    for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) {
      EXPECT_EQ(added[i], i >= own.begin && i < own.end ? 0 : 1) << i;
      EXPECT_EQ(summed[i], i >= last.begin && i < last.end ? 0 : 1) << i;
    }
  }
}

TEST(RingPlan, LargerBlocksHaveLargerChunksWithinTheLimits) {
  for (const auto& [count, chunk] : {std::pair<size_t, size_t>{90, 4}, {32 * 5, 5}, {32 * 7, 7}, {32 * 900, 8}}) {
    const RingPlan plan({.rank = 0, .size = 2, .counts = {count}, .min_chunk_bytes = 16, .max_chunk_bytes = 32});
    EXPECT_EQ(plan.collectives()[0].chunk, chunk) << count;
  }
}

TEST(RingPlan, VeryLargeParametersHaveLargerChunks) {
  const RingPlan plan = PlanOf(1, 3, {size_t{1} << 33}, 1, 1 << 18);
  EXPECT_LE(plan.places(), plan.steps() * (RingPlan::kMaxChunks / 3 + 1));
}

TEST(RingPlan, OneReplicaHasNothingToSend) {
  const RingPlan plan = PlanOf(0, 1, {5, 6}, 1, 8);
  EXPECT_EQ(plan.steps(), 0);
  EXPECT_EQ(plan.places(), 0u);
}

}  // namespace
}  // namespace hp
