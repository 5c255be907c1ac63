#include "checkpoint/incarnation.h"

#include "test/support/failing_locks.h"
#include "test/support/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

namespace hp {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::UnorderedElementsAre;

class IncarnationTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/hpnode-start-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    prefix_ = folder_ + "/out";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::unique_ptr<Incarnation> Claim() {
    auto claimed = Incarnation::Claim(prefix_);
    EXPECT_TRUE(claimed.ok()) << claimed.status();
    return *std::move(claimed);
  }
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.insert(entry.path().filename());
    return names;
  }
  void Touch(const std::string& name) const { std::ofstream(folder_ + "/" + name) << "x"; }

  std::string folder_, prefix_;
};

TEST_F(IncarnationTest, ALaterStartEndsTheEarlierOne) {
  const auto first = Claim();
  EXPECT_EQ(first->number(), 1);
  EXPECT_TRUE(first->Check().ok());
  const auto second = Claim();
  EXPECT_EQ(second->number(), 2);
  EXPECT_TRUE(second->Check().ok());
  const Status status = first->Check();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      status.message(),
      MatchesRegex("this is start 1 of the job; start 2 has begun since .host .*, process [0-9]+. and writes.*"));
  EXPECT_THAT(Names(), UnorderedElementsAre("out_start_2"));
}

RunMark MarkOf(uint64_t id) {
  RunMark run;
  run.set_id(id);
  return run;
}

TEST_F(IncarnationTest, AnotherRunWaitsForTheEndOfTheFirst) {
  auto first = Incarnation::Claim(prefix_, MarkOf(1), false, 0ms);
  ASSERT_TRUE(first.ok()) << first.status();
  const Status refused = Incarnation::Claim(prefix_, MarkOf(2), false, 0ms).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), MatchesRegex("another live run writes the snapshots .*/out .start 1, host .*, process "
                                              "[0-9]+.: end it, or give this run a snapshot_prefix of its own"));
  EXPECT_THAT(Names(), UnorderedElementsAre("out_start_1")) << "nothing is left, and nothing was removed";
  EXPECT_TRUE((*first)->Check().ok());
  std::jthread later([&first] { first->reset(); });
  const auto second = Incarnation::Claim(prefix_, MarkOf(2), false, 1h);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->number(), 2);
  EXPECT_THAT(Names(), UnorderedElementsAre("out_start_2"));
}

TEST_F(IncarnationTest, ADiskWithoutLocksIsNotAnotherRun) {
  const test::FailingLocks failing(ENOLCK);
  test::LogLines warnings(google::GLOG_WARNING);
  const auto first = Incarnation::Claim(prefix_, MarkOf(1), false, 1h);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(warnings.With("so another run with this snapshot_prefix will not be refused: No locks available").size(),
            1u);
  const auto second = Incarnation::Claim(prefix_, MarkOf(2), false, 1h);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(warnings.With("out_start_1: cannot be locked, so whether its process lives is unknown: No locks").size(),
            1u);
}

TEST_F(IncarnationTest, AStartOfTheSameRunDoesNotWait) {
  const auto first = Incarnation::Claim(prefix_, MarkOf(1), false, 0ms);
  const auto second = Incarnation::Claim(prefix_, MarkOf(1), false, 0ms);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*first)->Check().code(), StatusCode::kFailedPrecondition);
}

TEST_F(IncarnationTest, RunsAreToldApartByTheirNames) {
  const auto named = [](uint64_t id, const std::string& name) {
    RunMark run = MarkOf(id);
    run.set_name(name);
    return run;
  };
  const RunMark job11 = named(1, "Slurm job 11"), job12 = named(1, "Slurm job 12");
  auto first = Incarnation::Claim(prefix_, job11, false, 0ms);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(RunOfLatestStart(prefix_)->name(), "Slurm job 11");
  EXPECT_FALSE(RunOfLatestStart(prefix_)->has_resumed_from());
  EXPECT_THAT(Incarnation::Claim(prefix_, job12, false, 0ms).status().message(),
              HasSubstr("(start 1, Slurm job 11, host "))
      << "though it goes on from its snapshot";
  EXPECT_THAT(
      CheckGoesOn(prefix_, job12, false).message(),
      MatchesRegex("the snapshots .*/out are of Slurm job 11 .host .*, process [0-9]+., which is alive, and this is "
                   "Slurm job 12: .*"));
  EXPECT_TRUE(CheckGoesOn(prefix_, job11, true).ok());
  EXPECT_TRUE(CheckGoesOn(prefix_, MarkOf(2), true).ok()) << "nobody said who it is";
  const RunMark anew = named(5, "Slurm job 11");
  EXPECT_FALSE(Incarnation::Claim(prefix_, anew, false, 0ms).ok()) << "a second step of the job";
  EXPECT_TRUE(Incarnation::Claim(prefix_, anew, true, 0ms).ok()) << "the job, queued again before its first snapshot";
  first->reset();
  EXPECT_TRUE(CheckGoesOn(prefix_, job12, false).ok());
  EXPECT_THAT(CheckGoesOn(prefix_, job12, true).message(), HasSubstr("which began later"));
}

TEST_F(IncarnationTest, AStartThatWentBackSaysWhereTo) {
  RunMark run = MarkOf(1);
  run.set_began_us(2000);
  run.set_resumed_from(0);
  run.set_resumed_began_us(1000);
  run.set_name("Slurm job 11");
  const auto start = Incarnation::Claim(prefix_, run, false, 0ms);
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_EQ(RunOfLatestStart(prefix_)->ShortDebugString(), run.ShortDebugString());
}

TEST_F(IncarnationTest, OfManyRunsAtOnceOneHasThePrefix) {
  std::vector<std::unique_ptr<Incarnation>> claims(8);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < claims.size(); ++i) {
      threads.emplace_back([this, i, &claim = claims[i]] {
        if (auto claimed = Incarnation::Claim(prefix_, MarkOf(i + 1), false, 0ms); claimed.ok())
          claim = *std::move(claimed);
      });
    }
  }
  const auto has_it = [](const auto& claim) { return claim != nullptr && claim->Check().ok(); };
  EXPECT_EQ(std::count_if(claims.begin(), claims.end(), has_it), 1);
  EXPECT_EQ(std::count(claims.begin(), claims.end(), nullptr), 7);
}

TEST_F(IncarnationTest, WhatAnotherProcessMadeOfTheSameNumberIsNotOurs) {
  const auto first = Claim();
  std::filesystem::remove(prefix_ + "_start_1");
  EXPECT_EQ(first->Check().code(), StatusCode::kFailedPrecondition);
  const auto other = Claim();
  EXPECT_EQ(other->number(), 1);
  EXPECT_FALSE(first->Check().ok());
  EXPECT_TRUE(other->Check().ok());
}

TEST_F(IncarnationTest, TemporaryFilesOfEarlierStartsGoAndNothingElse) {
  Claim();
  for (const char* name : {"out_iter_10.caffemodel.1.tmp", "out_iter_10.caffemodel", "out_iter_20.solverstate.9.tmp",
                           "other_iter_10.caffemodel.1.tmp", "out_start_x", "out_iter_10.tmp"}) {
    Touch(name);
  }
  EXPECT_EQ(Claim()->number(), 2);
  EXPECT_THAT(Names(), UnorderedElementsAre("out_start_2", "out_iter_10.caffemodel", "out_iter_20.solverstate.9.tmp",
                                            "other_iter_10.caffemodel.1.tmp", "out_start_x", "out_iter_10.tmp"));
}

TEST_F(IncarnationTest, OfManyAtOnceEachHasItsOwnNumber) {
  std::vector<std::unique_ptr<Incarnation>> claims(8);
  {
    std::vector<std::jthread> threads;
    for (auto& claim : claims) threads.emplace_back([&] { claim = Claim(); });
  }
  std::set<int64_t> numbers;
  int valid = 0;
  for (const auto& claim : claims) {
    numbers.insert(claim->number());
    valid += claim->Check().ok();
  }
  EXPECT_EQ(numbers.size(), claims.size());
  EXPECT_EQ(valid, 1);
}

TEST_F(IncarnationTest, AMissingFolderIsNamed) {
  EXPECT_THAT(Incarnation::Claim(folder_ + "/absent/out").status().message(), HasSubstr("does not exist"));
}

}  // namespace
}  // namespace hp
