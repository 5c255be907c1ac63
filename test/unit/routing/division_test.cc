#include "scheduler/plan/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <vector>

namespace hp {
namespace {

TEST(PartitionTest, PartsCoverWithoutOverlapAndDifferByAtMostOne) {
  for (int64_t count : {0, 1, 5, 7, 16, 100, 1437}) {
    for (int64_t parts : {1, 2, 3, 4, 7, 16}) {
      int64_t next = 0, least = count, most = 0;
      for (int64_t i = 0; i < parts; ++i) {
        const Range range = PartOf(count, i, parts);
        EXPECT_EQ(range.begin, next);
        next = range.end;
        least = std::min(least, range.size());
        most = std::max(most, range.size());
      }
      EXPECT_EQ(next, count);
      EXPECT_LE(most - least, 1) << count << " over " << parts;
    }
  }
}

TEST(PartitionTest, MicroBatchesOfAReplicaLieTogetherInItsRange) {
  for (int64_t batch : {7, 10, 64, 101}) {
    for (int replicas : {1, 2, 3}) {
      for (int micro_batches : {1, 2, 3}) {
        JobShape shape;
        shape.replicas = replicas;
        shape.micro_batches = micro_batches;
        const Schedule schedule(shape);
        int64_t next = 0;
        for (int r = 0; r < replicas; ++r) {
          EXPECT_EQ(PartOf(batch, r, replicas).begin, next);
          for (int m = 0; m < micro_batches; ++m) {
            const Range range = schedule.SamplesOf(batch, r, m);
            EXPECT_EQ(range.begin, next);
            next = range.end;
          }
          EXPECT_EQ(PartOf(batch, r, replicas).end, next);
        }
        EXPECT_EQ(next, batch);
      }
    }
  }
}

TEST(PartitionTest, ATestGoesOnBehindTheSamplesOfTheLastOne) {
  JobShape shape;
  shape.tests = {{3, 10}};
  shape.test_interval = 5;
  shape.max_iter = 20;
  const auto first_samples = [&shape] {
    const Schedule schedule(shape);
    std::vector<int64_t> first;
    for (int64_t clock = 0; clock <= shape.max_iter; ++clock) {
      const std::vector<MsgId> ids = schedule.TestIds(clock);
      if (!ids.empty()) first.push_back(schedule.SamplesOfId(ids[1]).first_sample);  // of the second batch
    }
    return first;
  };
  EXPECT_THAT(first_samples(), testing::ElementsAre(10, 40, 70, 100, 130));
  shape.test_initialization = false;
  EXPECT_THAT(first_samples(), testing::ElementsAre(10, 40, 70, 100));
  shape.restart_tests = true;
  EXPECT_THAT(first_samples(), testing::ElementsAre(10, 10, 10, 10));
}

TEST(PartitionTest, EachOfSeveralTestsGoesOnBehindItsOwnSamples) {
  JobShape shape;
  shape.replicas = 2;
  shape.micro_batches = 2;
  shape.tests = {{3, 8}, {1, 5}};
  shape.test_interval = 5;
  shape.max_iter = 5;
  const Schedule schedule(shape);
  EXPECT_EQ(schedule.tests(), 2);
  for (int64_t clock : {0, 5}) {
    std::map<int, std::vector<int64_t>> samples;  // by test
    for (MsgId id : schedule.TestIds(clock)) {
      const IdSamples of_id = schedule.SamplesOfId(id);
      EXPECT_EQ(of_id.batch, schedule.PhaseOf(id).test() == 0 ? id.micro() / 2 : 0) << "labels are told by this";
      for (int64_t i = 0; i < of_id.rows; ++i) samples[schedule.PhaseOf(id).test()].push_back(of_id.first_sample + i);
    }
    for (const auto& [test, first, count] : {std::tuple(0, 24, 24), std::tuple(1, 5, 5)}) {
      std::sort(samples[test].begin(), samples[test].end());
      std::vector<int64_t> expected(count);
      std::iota(expected.begin(), expected.end(), clock == 0 ? 0 : first);
      EXPECT_EQ(samples[test], expected) << test;
    }
  }
}

TEST(PartitionTest, SharesAreInProportion) {
  JobShape shape;
  shape.replicas = 3;
  shape.micro_batches = 2;
  shape.shares = {3, 1, 2};
  shape.train_batch = 24;
  shape.max_iter = 1;
  const Schedule schedule(shape);
  EXPECT_EQ(schedule.RowsOf(caffe::TRAIN, 0), (Range{0, 12}));
  EXPECT_EQ(schedule.RowsOf(caffe::TRAIN, 1), (Range{12, 16}));
  EXPECT_EQ(schedule.RowsOf(caffe::TRAIN, 2), (Range{16, 24}));
  EXPECT_EQ(schedule.SamplesOf(24, 0, 1), (Range{6, 12}));
  EXPECT_THAT(schedule.RowCounts(caffe::TRAIN), testing::ElementsAre(2, 4, 6));
  EXPECT_THAT(schedule.RowCounts(caffe::TRAIN, schedule.ReadBy(1)), testing::ElementsAre(2));
  for (int64_t batch : {7, 11, 1000003}) {
    int64_t next = 0;
    for (int replica = 0; replica < 3; ++replica) {
      for (int micro = 0; micro < 2; ++micro) {
        const Range range = schedule.SamplesOf(batch, replica, micro);
        EXPECT_EQ(range.begin, next);
        EXPECT_NEAR(static_cast<double>(range.size()), batch * shape.shares[replica] / 12.0, 1);
        next = range.end;
      }
    }
    EXPECT_EQ(next, batch);
  }
}

TEST(PartitionTest, UnevenDivisionIsSpread) {
  // 10 outputs over 4 shards: floor(10*j/4) = 0, 2, 5, 7, 10.
  EXPECT_EQ(PartOf(10, 0, 4), (Range{0, 2}));
  EXPECT_EQ(PartOf(10, 1, 4), (Range{2, 5}));
  EXPECT_EQ(PartOf(10, 2, 4), (Range{5, 7}));
  EXPECT_EQ(PartOf(10, 3, 4), (Range{7, 10}));
}

TEST(MsgIdTest, HoldsItsFields) {
  for (int64_t clock : {int64_t{0}, int64_t{5}, MsgId::kMaxClock}) {
    for (bool train : {false, true}) {
      for (int64_t micro : {int64_t{0}, int64_t{77}, MsgId::kMaxMicroBatches - 1}) {
        for (int64_t replica : {int64_t{0}, int64_t{3}, MsgId::kMaxReplicas - 1}) {
          const MsgId id = MsgId::Make(clock, train, micro, replica);
          EXPECT_EQ(std::tuple(id.clock(), id.train(), id.micro(), int64_t{id.replica()}),
                    std::tuple(clock, train, micro, replica));
        }
      }
    }
  }
  EXPECT_EQ(MsgId::Make(1, true, 2, 3).bits, 0x00000001'80002003u);
}

TEST(MsgIdTest, OrderIsClockThenTestThenMicroBatchThenReplica) {
  using Fields = std::tuple<int64_t, bool, int64_t, int64_t>;
  std::vector<Fields> in_order;
  for (int64_t clock : {0, 1, 70000}) {
    for (bool train : {false, true}) {
      for (int64_t micro : {0, 1, 4096, 500000}) {
        for (int64_t replica : {0, 1, 4095}) in_order.push_back({clock, train, micro, replica});
      }
    }
  }
  std::sort(in_order.begin(), in_order.end());
  for (size_t i = 1; i < in_order.size(); ++i) {
    EXPECT_LT(std::apply(MsgId::Make, in_order[i - 1]), std::apply(MsgId::Make, in_order[i]));
  }
}

}  // namespace
}  // namespace hp
