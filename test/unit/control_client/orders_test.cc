#include "control_client/orders.h"

#include <gmock/gmock.h>

namespace hp {
namespace {

using testing::HasSubstr;

std::string Described(const std::vector<std::string>& words) {
  const StatusOr<JobOrder> order = ParseOrder(words);
  return order.ok() ? DescribeOrder(*order, 12) : std::string(order.status().message());
}

TEST(OrdersTest, WhatACommandLineStandsFor) {
  EXPECT_EQ(Described({"snapshot"}), "a snapshot of iteration 12 is being written");
  EXPECT_EQ(Described({"stop"}), "the job stops at iteration 12");
  EXPECT_EQ(Described({"lr", "1e-3"}), "from iteration 12 on base_lr is 0.001");
  EXPECT_EQ(Described({"trace", "on"}), "tracing is on from iteration 12 on");
  EXPECT_EQ(Described({"trace", "off"}), "tracing is off from iteration 12 on");
}

TEST(OrdersTest, WhatIsNone) {
  for (const char* rate : {"", "0", "-1", "nan", "inf", "1e60", "1e-60", "0.1 ", "x"})
    EXPECT_THAT(Described({"lr", rate}), HasSubstr("expected a base_lr above 0")) << rate;
  EXPECT_EQ(Described({"lr"}), "expected: lr BASE_LR");
  EXPECT_EQ(Described({"stop", "now"}), "expected: stop");
  EXPECT_EQ(Described({"trace", "maybe"}), "expected: trace on|off");
  EXPECT_THAT(Described({"dance\x1b"}), HasSubstr("\"dance\\x1b\" is no command"));
}

}  // namespace
}  // namespace hp
