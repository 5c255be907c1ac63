#include "report/stop_budget.h"

#include <gtest/gtest.h>

namespace hp {
namespace {

class StopBudgetTest : public testing::Test {
 protected:
  void Pass(int seconds) {
    clock_.Advance(seconds * kNsPerSecond);
    budget_.OnIteration();
  }
  FakeClock clock_;
  StopBudget budget_{"conv0", 20, &clock_};
};

TEST_F(StopBudgetTest, WarnsOfTwoLongIterations) {
  Pass(1);
  Pass(10);
  Pass(10);
  EXPECT_FALSE(budget_.warned());
  Pass(11);
  EXPECT_FALSE(budget_.warned());
  Pass(11);
  EXPECT_TRUE(budget_.warned());
}

TEST_F(StopBudgetTest, OneLongIterationIsNoReason) {
  Pass(1);
  Pass(30);  // the first one, or a test
  Pass(2);
  EXPECT_FALSE(budget_.warned());
}

TEST_F(StopBudgetTest, ASnapshotCounts) {
  for (int i = 0; i < 4; ++i) Pass(3);
  budget_.OnSnapshot(14 * kNsPerSecond);
  EXPECT_FALSE(budget_.warned());
  budget_.OnSnapshot(15 * kNsPerSecond);
  EXPECT_TRUE(budget_.warned());
}

TEST_F(StopBudgetTest, WithoutALimitNothingIsTooLong) {
  StopBudget endless("conv0", 0, &clock_);
  for (int i = 0; i < 4; ++i) {
    clock_.Advance(1000 * kNsPerSecond);
    endless.OnIteration();
  }
  EXPECT_FALSE(endless.warned());
}

}  // namespace
}  // namespace hp
