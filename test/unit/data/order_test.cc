#include "data/order.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace hp {
namespace {

TEST(RecordOrder, InOrderWrapsAround) {
  const RecordOrder order(5, false, 1);
  for (int64_t s = 0; s < 23; ++s) EXPECT_EQ(order.Record(s), s % 5);
}

TEST(RecordOrder, EveryShuffledEpochVisitsEveryRecordOnce) {
  for (const int64_t size : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4097}) {
    const RecordOrder order(size, true, 42);
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::set<int64_t> seen;
      for (int64_t i = 0; i < size; ++i) {
        const int64_t record = order.Record(epoch * size + i);
        ASSERT_GE(record, 0);
        ASSERT_LT(record, size);
        seen.insert(record);
      }
      EXPECT_EQ(static_cast<int64_t>(seen.size()), size);
    }
  }
}

std::vector<int64_t> Take(const RecordOrder& order, int64_t first, int64_t count) {
  std::vector<int64_t> records;
  for (int64_t s = first; s < first + count; ++s) records.push_back(order.Record(s));
  return records;
}

TEST(RecordOrder, DependsOnSeedAndEpochAlone) {
  const RecordOrder order(1000, true, 7);
  EXPECT_EQ(Take(order, 500, 700), Take(RecordOrder(1000, true, 7), 500, 700));
  EXPECT_NE(Take(order, 0, 1000), Take(RecordOrder(1000, true, 8), 0, 1000));
  EXPECT_NE(Take(order, 0, 1000), Take(order, 1000, 1000));
}

// Fixed points of a random permutation are 1 on average, whatever its size; neighbours stay neighbours about twice.
TEST(RecordOrder, ShufflesWell) {
  const int64_t size = 1000, epochs = 50;
  const RecordOrder order(size, true, 3);
  int64_t fixed = 0, neighbours = 0;
  double distance = 0;
  for (int64_t s = 0; s < size * epochs; ++s) {
    const int64_t position = s % size, record = order.Record(s);
    fixed += record == position;
    distance += std::abs(record - position);
    if (position > 0) neighbours += std::abs(record - order.Record(s - 1)) == 1;
  }
  EXPECT_GT(fixed, epochs / 3);
  EXPECT_LT(fixed, epochs * 3);
  EXPECT_GT(neighbours, epochs);
  EXPECT_LT(neighbours, epochs * 4);
  EXPECT_NEAR(distance / (size * epochs), size / 3.0, size / 30.0);
}

// Replicas with contiguous ranges of each batch read disjoint parts that cover the epoch.
TEST(RecordOrder, PartsOfReplicasAreDisjoint) {
  const RecordOrder order(120, true, 9);
  std::set<int64_t> all;
  for (int replica = 0; replica < 3; ++replica) {
    for (int batch = 0; batch < 4; ++batch) {
      for (const int64_t record : Take(order, batch * 30 + replica * 10, 10)) {
        EXPECT_TRUE(all.insert(record).second) << record;
      }
    }
  }
  EXPECT_EQ(all.size(), 120u);
}

TEST(RecordOrder, RandSkipIsBelowItsLimitAndSeeded) {
  std::set<int64_t> skips;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const RecordOrder order(100, false, seed, 10);
    ASSERT_GE(order.skip(), 0);
    ASSERT_LT(order.skip(), 10);
    EXPECT_EQ(order.Record(0), order.skip());
    EXPECT_EQ(order.skip(), RecordOrder(100, false, seed, 10).skip());
    skips.insert(order.skip());
  }
  EXPECT_GT(skips.size(), 5u);
  EXPECT_EQ(RecordOrder(100, false, 1, 0).skip(), 0);
}

TEST(RecordOrder, LargeSizesStayInRange) {
  const int64_t size = (int64_t{1} << 40) + 12345;
  const RecordOrder order(size, true, 5);
  std::set<int64_t> seen;
  for (int64_t s = 3 * size - 500; s < 3 * size + 500; ++s) {
    const int64_t record = order.Record(s);
    ASSERT_GE(record, 0);
    ASSERT_LT(record, size);
    seen.insert(record);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

}  // namespace
}  // namespace hp
