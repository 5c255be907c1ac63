#include "scheduler/control/order_text.h"

#include <gmock/gmock.h>

#include <limits>
#include <string>

namespace hp {
namespace {

using testing::HasSubstr;
using testing::Not;

OrderGiver Anna() {
  OrderGiver giver;
  giver.set_user("anna");
  giver.set_host("desk");
  giver.set_program("hpctl");
  giver.set_process(4711);
  return giver;
}

TEST(OrderTextTest, WhatHpctlWasTold) {
  JobOrder order;
  EXPECT_EQ(NameOfOrder(order), "none");
  order.set_kind(JobOrder::RATE);
  order.set_base_lr(0.005F);
  EXPECT_EQ(NameOfOrder(order), "lr 0.005");
  order.set_kind(JobOrder::TRACE);
  EXPECT_EQ(NameOfOrder(order), "trace off");
  order.set_trace_on(true);
  EXPECT_EQ(NameOfOrder(order), "trace on");
  order.set_kind(JobOrder::STOP);
  EXPECT_EQ(NameOfOrder(order), "stop");
}

TEST(OrderTextTest, WhoGaveIt) {
  EXPECT_EQ(DescribeGiver(Anna(), "10.0.0.7:40312"),
            "from 10.0.0.7:40312, which says it is \"anna\" on \"desk\", program \"hpctl\", process 4711");
  EXPECT_EQ(DescribeGiver(OrderGiver(), "[::1]:1"), "from [::1]:1, which does not say who it is");
  EXPECT_THAT(DescribeGiver(Anna(), ""), HasSubstr("from an unknown address, which says"));
}

TEST(OrderTextTest, ClaimsAreBoundedAndQuoted) {
  OrderGiver giver = Anna();
  giver.set_user("x\" on \"root\nI1125 fine\x1b[2J\x80\u202egnp\u2066");
  giver.set_host(std::string(5000, 'h'));
  giver.set_process(std::numeric_limits<int64_t>::min());
  const std::string text = DescribeGiver(giver, "10.0.0.7:1");
  EXPECT_THAT(text, HasSubstr("it is \"x\\x22 on \\x22root\\x0aI1125 fine\\x1b[2J\\x80?gnp?\" on \"hhh"));
  EXPECT_THAT(text, Not(HasSubstr("\n")));
  EXPECT_THAT(text, Not(HasSubstr("\u202e")));
  EXPECT_LT(text.size(), 400u);
}

}  // namespace
}  // namespace hp
