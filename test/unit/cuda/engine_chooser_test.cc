#include "backend/cuda/engine_chooser.h"

#include "test/support/kept_engines.h"
#include "test/support/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace hp::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class EngineChooserTest : public testing::Test {
 protected:
  /// Chooses among engines 10, 11, ... that take as long as is said, or report an error instead.
  StatusOr<size_t> Choose(const std::vector<StatusOr<double>>& times) {
    std::vector<EngineChoice> candidates;
    for (size_t i = 0; i < times.size(); ++i) {
      candidates.push_back({.engine = static_cast<int64_t>(10 + i), .knobs = {{2, static_cast<int64_t>(i)}}});
    }
    return chooser_.Choose("conv1", candidates, [&](size_t i) {
      timed_.push_back(i);
      return times[i];
    });
  }
  const KeptEngines::Entry& Kept() { return kept_.entries.at({"conv1", "NVIDIA H200", "cuDNN 9.10.2"}); }

  KeptEngines kept_;
  EngineChooser chooser_{&kept_, "NVIDIA H200", "cuDNN 9.10.2"};
  std::vector<size_t> timed_;
};

TEST_F(EngineChooserTest, TheFastestIsTakenAndKept) {
  EXPECT_EQ(Choose({3.0, 2.0, 1.0, 4.0}).value(), 2u);
  EXPECT_THAT(timed_, ElementsAre(0u, 1u, 2u, 3u));
  EXPECT_EQ(Kept().choice, (EngineChoice{.engine = 12, .knobs = {{2, 2}}}));
  EXPECT_EQ(Kept().times.chosen_ms, 1.0);
  EXPECT_EQ(Kept().times.heuristics_ms, 3.0);
  EXPECT_EQ(chooser_.Kept("conv1"), Kept().choice);
}

/// Another day's noise of a percent or two shall not make another choice.
TEST_F(EngineChooserTest, SmallDifferencesLeaveTheOrder) {
  EXPECT_EQ(Choose({1.0, 1.0, 1.0}).value(), 0u);
  EXPECT_EQ(Choose({1.02, 1.01, 1.0}).value(), 0u);
  EXPECT_EQ(Choose({1.04, 1.02, 1.0}).value(), 1u) << "within 3% of the fastest, not of its neighbour";
  EXPECT_EQ(Choose({1.04, 1.05, 1.0}).value(), 2u);
}

TEST_F(EngineChooserTest, WhatDoesNotRunIsPassedOver) {
  const Status refused = FailedPrecondition("CUDNN_STATUS_EXECUTION_FAILED");
  EXPECT_EQ(Choose({refused, 2.0, 1.5, refused}).value(), 2u);
  EXPECT_EQ(Kept().times.heuristics_ms, 0) << "the heuristics' engine has no time";
  kept_.entries.clear();
  EXPECT_EQ(Choose({refused, refused}).status().message(), refused.message());
  EXPECT_THAT(kept_.entries, IsEmpty());
}

TEST_F(EngineChooserTest, AFailingGpuEndsTheChoice) {
  EXPECT_EQ(Choose({1.0, InternalError("fell off the bus"), 0.5}).status().code(), StatusCode::kInternal);
  EXPECT_THAT(timed_, ElementsAre(0u, 1u));
  EXPECT_THAT(kept_.entries, IsEmpty());
}

/// A full GPU costs speed, not the job; and not the bits of the next start either.
TEST_F(EngineChooserTest, WithoutMemoryTheFirstIsKept) {
  const Status full = ResourceExhausted("cannot allocate 3.0 MB");
  EXPECT_EQ(Choose({full, 2.0, full}).value(), 1u) << "one that was timed is better";
  LogLines warnings(google::GLOG_WARNING);
  EXPECT_EQ(Choose({FailedPrecondition("no"), full, full}).value(), 1u);
  EXPECT_EQ(Kept().choice.engine, 11);
  EXPECT_EQ(Kept().times.chosen_ms, 0);
  EXPECT_THAT(warnings.With("conv1: engines are not timed: cannot allocate 3.0 MB"), SizeIs(1));
}

TEST_F(EngineChooserTest, ASingleCandidateIsNotTimed) {
  EXPECT_EQ(Choose({1.0}).value(), 0u);
  EXPECT_THAT(timed_, IsEmpty());
  EXPECT_EQ(Kept().choice.engine, 10);
}

TEST_F(EngineChooserTest, AChoiceIsForItsOperationGpuAndLibrary) {
  ASSERT_TRUE(Choose({2.0, 1.0}).ok());
  EXPECT_TRUE(chooser_.Kept("conv1"));
  EXPECT_FALSE(chooser_.Kept("conv2"));
  EXPECT_TRUE(EngineChooser(&kept_, "NVIDIA H200", "cuDNN 9.10.2").Kept("conv1"));
  EXPECT_FALSE(EngineChooser(&kept_, "NVIDIA A100", "cuDNN 9.10.2").Kept("conv1"));
  EXPECT_FALSE(EngineChooser(&kept_, "NVIDIA H200", "cuDNN 9.11.0").Kept("conv1"));
}

}  // namespace
}  // namespace hp::test
