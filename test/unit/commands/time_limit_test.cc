#include "commands/time_limit.h"

#include <gtest/gtest.h>

namespace hp {
namespace {

constexpr int64_t kNow = 1'700'000'000;

TEST(TimeLimitTest, StopsAheadOfTheEnd) {
  FakeClock clock;
  clock.Advance(77 * kNsPerSecond);
  const TimeLimit limit(kNow + 100, 30, kNow, &clock);
  EXPECT_EQ(limit.LeftNs(), 70 * kNsPerSecond);
  clock.Advance(69 * kNsPerSecond);
  EXPECT_EQ(limit.LeftNs(), kNsPerSecond);
  clock.Advance(kNsPerSecond);
  EXPECT_EQ(limit.LeftNs(), 0);
  clock.Advance(kNsPerSecond);
  EXPECT_EQ(limit.LeftNs(), 0);
}

TEST(TimeLimitTest, ThereMayBeNone) {
  const FakeClock clock;
  EXPECT_FALSE(TimeLimit().LeftNs().has_value());
  EXPECT_FALSE(TimeLimit(0, 30, kNow, &clock).LeftNs().has_value());
  EXPECT_FALSE(TimeLimit(kNow + 100, 0, kNow, &clock).LeftNs().has_value());
}

TEST(TimeLimitTest, LateAndFarAway) {
  const FakeClock clock;
  EXPECT_EQ(TimeLimit(kNow + 29, 30, kNow, &clock).LeftNs(), 0);
  EXPECT_EQ(TimeLimit(1, 30, kNow, &clock).LeftNs(), 0);
  EXPECT_GT(TimeLimit(int64_t{1} << 40, 30, kNow, &clock).LeftNs(), int64_t{300'000'000} * kNsPerSecond);
}

}  // namespace
}  // namespace hp
