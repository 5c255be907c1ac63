#include "scheduler/control/latest_snapshot.h"

#include "scheduler/control/resume_rules.h"
#include "scheduler/control/slice_tag.h"
#include "test/support/small_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RunMark Mark(uint64_t id, int64_t began_us) {
  RunMark run;
  run.set_id(id);
  run.set_began_us(began_us);
  return run;
}

ResumeLatest Holds(int64_t iteration, uint64_t hash, const RunMark& run = Mark(1, 100)) {
  ResumeLatest known;
  known.mutable_snapshot()->set_iteration(iteration);
  *known.mutable_snapshot()->mutable_run() = run;
  known.set_snapshot_hash(hash);
  return known;
}

ResumeLatest Started(ResumeLatest known, const RunMark& run) {
  *known.mutable_started_run() = run;
  return known;
}

TEST(LatestSnapshotTest, TheNewestOfAnyNodeAndAllWhoHaveIt) {
  const auto latest = ChooseLatest({{0, Holds(10, 7)}, {1, Holds(20, 8)}, {2, {}}, {3, Holds(20, 8)}});
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->manifest.iteration(), 20);
  EXPECT_THAT(latest->holders, ElementsAre(1, 3));
  EXPECT_FALSE(latest->Has(0));
  EXPECT_EQ(latest->GiverOf(0), 1);
}

TEST(LatestSnapshotTest, OneWithOtherBytesIsAnother) {
  const auto latest = ChooseLatest({{0, Holds(20, 9)}, {1, Holds(20, 8)}});
  ASSERT_TRUE(latest.has_value());
  EXPECT_THAT(latest->holders, ElementsAre(0));
}

TEST(LatestSnapshotTest, OnlyOfTheRunThatBeganLast) {
  const auto latest = ChooseLatest({{0, Holds(900, 7)}, {1, Holds(20, 8, Mark(2, 200))}});
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->manifest.iteration(), 20);
  EXPECT_FALSE(ChooseLatest({{0, Holds(900, 7)}, {1, Started({}, Mark(2, 200))}}).has_value());
  EXPECT_TRUE(ChooseLatest({{0, Holds(900, 7)}, {1, Started({}, Mark(2, 50))}}).has_value());
}

TEST(LatestSnapshotTest, WhatWasWrittenAfterALaterBeginningIsNewer) {
  const auto latest = ChooseLatest({{0, Holds(900, 7)}, {1, Holds(150, 8, Mark(1, 200))}});
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->manifest.iteration(), 150);
}

/// Its user went back to iteration 10, and nothing was written since.
TEST(LatestSnapshotTest, NothingOfAWayThatWasLeft) {
  RunMark back = Mark(1, 200);
  back.set_resumed_from(10);
  back.set_resumed_began_us(100);
  const auto latest = ChooseLatest({{0, Started(Holds(10, 7), back)}, {1, Holds(40, 8)}});
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->manifest.iteration(), 10);
  EXPECT_THAT(latest->holders, ElementsAre(0)) << "which gives node 1 its part";
  EXPECT_EQ(latest->run.began_us(), 200) << "so that what is written next is newer than what was left";
  EXPECT_EQ(latest->run.resumed_from(), 10);
  EXPECT_EQ(ChooseLatest({{0, Holds(10, 7)}, {1, Holds(20, 9, back)}, {2, Holds(40, 8)}})->manifest.iteration(), 20);
  EXPECT_FALSE(ChooseLatest({{0, Started({}, back)}, {1, Holds(40, 8)}}).has_value());
  // And forward again to one of the first way.
  RunMark forward = Mark(1, 300);
  forward.set_resumed_from(40);
  forward.set_resumed_began_us(100);
  EXPECT_EQ(ChooseLatest({{0, Started(Holds(20, 9, back), forward)}, {1, Holds(40, 8)}})->manifest.iteration(), 40);
}

TEST(LatestSnapshotTest, OfVersionsThatKnewNoRuns) {
  const auto latest = ChooseLatest({{0, Holds(10, 7, {})}, {1, Holds(20, 8, {})}});
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->manifest.iteration(), 20);
  EXPECT_FALSE(ChooseLatest({{0, {}}, {1, {}}}).has_value());
}

TEST(LatestSnapshotTest, NumbersOfALiarAreRefused) {
  EXPECT_TRUE(CheckResumeLatest(Holds(10, 7)).ok());
  EXPECT_FALSE(CheckResumeLatest(Holds(-1, 7)).ok());
  EXPECT_FALSE(CheckResumeLatest(Holds(int64_t{1} << 40, 7)).ok());
  EXPECT_FALSE(CheckResumeLatest(Holds(1, 7, Mark(1, -5))).ok());
  EXPECT_FALSE(CheckResumeLatest(Started({}, Mark(1, -5))).ok());
  RunMark back = Mark(1, 5);
  back.set_resumed_from(-1);
  EXPECT_FALSE(CheckResumeLatest(Holds(1, 7, back)).ok());
  EXPECT_FALSE(CheckResumeLatest(Started({}, back)).ok());
  ResumeLatest known = Holds(10, 7);
  known.mutable_snapshot()->add_node()->set_threads(0);
  EXPECT_FALSE(CheckResumeLatest(known).ok());
}

// FC nodes of the small job hold slices, conv nodes all of their stage.
class ResumeRulesTest : public ::testing::Test {
 protected:
  static constexpr Rank kTaker = 2;
  Status Check(const ResumePiece& piece) {
    return rules_.Check(kTaker, piece.tag, static_cast<size_t>(piece.count) * sizeof(float));
  }

  const RoutingTable table_ = MakeTable(kTable);
  const std::unique_ptr<JobPlan> job_ = SmallJob(table_);
  const std::vector<ResumePiece> pieces_ = ResumePiecesOf(*job_, kTaker);
  ResumeRules rules_;
};

TEST_F(ResumeRulesTest, EachPieceOnceAndInOrder) {
  ASSERT_GE(pieces_.size(), 4u);
  rules_.SetPlan(*job_, {kTaker});
  EXPECT_FALSE(Check(pieces_[1]).ok());
  for (const ResumePiece& piece : pieces_) {
    EXPECT_TRUE(IsResumeTag(piece.tag));
    EXPECT_FALSE(rules_.Check(kTaker, piece.tag, 3).ok());
    EXPECT_TRUE(Check(piece).ok());
  }
  EXPECT_THAT(Check(pieces_.back()).message(), HasSubstr("gets none here"));
  EXPECT_FALSE(rules_.Check(3, pieces_[0].tag, 4).ok());
}

TEST_F(ResumeRulesTest, OneGrantAheadOfThePlan) {
  EXPECT_TRUE(rules_.CheckEarly(kTaker).ok());
  EXPECT_TRUE(rules_.CheckEarly(3).ok());
  EXPECT_FALSE(rules_.CheckEarly(kTaker).ok());
}

}  // namespace
}  // namespace hp
