#include "scheduler/plan/loss_scaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace hp {
namespace {

LossScaling Config(double initial, int growth_interval) {
  LossScaling config;
  config.set_initial(initial);
  config.set_growth_interval(growth_interval);
  return config;
}

LossScalingState State(double scale, int64_t finite_updates) {
  LossScalingState state;
  state.set_scale(scale);
  state.set_finite_updates(finite_updates);
  return state;
}

TEST(LossScaler, HasTheDefaultsOfPyTorch) {
  LossScaler scaler{LossScaling()};
  EXPECT_EQ(scaler.scale(), 65536);
  for (int i = 0; i < 1999; ++i) scaler.OnFinite();
  EXPECT_EQ(scaler.scale(), 65536);
  scaler.OnFinite();
  EXPECT_EQ(scaler.scale(), 131072);
}

TEST(LossScaler, DoublesAfterAnIntervalOfFiniteUpdatesInARow) {
  LossScaler scaler(Config(8, 3));
  std::vector<double> scales;
  for (const bool finite : {true, true, true, true, true, false, true, true, false, false, true, true, true, true}) {
    if (finite) {
      scaler.OnFinite();
    } else {
      EXPECT_TRUE(scaler.BackOff());
    }
    scales.push_back(scaler.scale());
  }
  EXPECT_THAT(scales, testing::ElementsAre(8, 8, 16, 16, 16, 8, 8, 8, 4, 2, 2, 2, 4, 4));
}

TEST(LossScaler, NeverFallsBelowOne) {
  LossScaler scaler(Config(4, 2));
  EXPECT_TRUE(scaler.BackOff());
  EXPECT_TRUE(scaler.BackOff());
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_FALSE(scaler.BackOff());
  EXPECT_EQ(scaler.scale(), 1);
}

TEST(LossScaler, NeverGrowsWithoutAnIntervalNorBeyondTheLargest) {
  LossScaler still(Config(2, 0)), large(Config(LossScaler::kLargest / 2, 1));
  for (int i = 0; i < 5000; ++i) still.OnFinite();
  EXPECT_EQ(still.scale(), 2);
  for (int i = 0; i < 3; ++i) large.OnFinite();
  EXPECT_EQ(large.scale(), LossScaler::kLargest);
}

TEST(LossScaler, GoesOnFromItsState) {
  LossScaler whole(Config(8, 5)), resumed(Config(1024, 5));
  for (int i = 0; i < 8; ++i) whole.OnFinite();
  ASSERT_TRUE(resumed.Restore(whole.state()).ok());
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(resumed.scale(), whole.scale()) << i;
    whole.OnFinite();
    resumed.OnFinite();
  }
  EXPECT_EQ(whole.scale(), 8 * 32);
}

/// A resumed job may have a shorter interval.
TEST(LossScaler, GrowsAtOnceIfTheIntervalHasPassed) {
  LossScaler scaler(Config(8, 5));
  ASSERT_TRUE(scaler.Restore(State(4, 100)).ok());
  scaler.OnFinite();
  EXPECT_EQ(scaler.scale(), 8);
}

TEST(LossScaler, RefusesWhatIsNoState) {
  LossScaler scaler(Config(8, 5));
  for (const LossScalingState& state : {State(0, 1), State(3, 1), State(0.5, 1), State(0x1p101, 1), State(4, -1),
                                        State(-4, 1), State(std::nan(""), 1), LossScalingState()}) {
    EXPECT_EQ(scaler.Restore(state).code(), StatusCode::kDataLoss) << state.ShortDebugString();
  }
  EXPECT_EQ(scaler.scale(), 8);
}

TEST(LossScaler, ScalesArePowersOfTwo) {
  for (const double scale : {1.0, 2.0, 65536.0, 0x1p100}) EXPECT_TRUE(LossScaler::IsScale(scale)) << scale;
  for (const double scale : {0.0, 0.5, 1.5, 3.0, -2.0, 65535.0, 0x1p101, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    EXPECT_FALSE(LossScaler::IsScale(scale)) << scale;
  }
}

}  // namespace
}  // namespace hp
