#include "base/subnet.h"

#include <gtest/gtest.h>

namespace hp {
namespace {

TEST(SubnetTest, OfAnAddressAndItsBits) {
  EXPECT_EQ(SubnetOf("10.0.7.3", 24), "10.0.7.0/24");
  EXPECT_EQ(SubnetOf("10.0.7.3", 31), "10.0.7.2/31");
  EXPECT_EQ(SubnetOf("10.0.7.3", 32), "10.0.7.3/32");
  EXPECT_EQ(SubnetOf("10.255.7.3", 9), "10.128.0.0/9");
  EXPECT_EQ(SubnetOf("10.0.7.3", 0), "0.0.0.0/0");
  EXPECT_EQ(SubnetOf("fd00:0:0:7::3", 64), "fd00:0:0:7::/64");
  EXPECT_EQ(SubnetOf("10.0.7.3", 33), "");
  EXPECT_EQ(SubnetOf("10.0.7.3", -1), "");
  EXPECT_EQ(SubnetOf("host", 8), "");
}

TEST(SubnetTest, HasTheAddressesThatShareItsBits) {
  EXPECT_TRUE(IsInSubnet("10.0.7.255", "10.0.7.0/24"));
  EXPECT_FALSE(IsInSubnet("10.0.8.0", "10.0.7.0/24"));
  EXPECT_TRUE(IsInSubnet("172.31.0.1", "172.16.0.0/12"));
  EXPECT_FALSE(IsInSubnet("172.32.0.1", "172.16.0.0/12"));
  EXPECT_TRUE(IsInSubnet("fd00:7::9", "fd00:7::/64"));
  EXPECT_FALSE(IsInSubnet("10.0.0.1", "::/0")) << "of another family";
  for (const char* wrong : {"", "10.0.0.0", "10.0.0.0/x", "10.0.0.0/33", "10.0.0.0/-1", "host/8"}) {
    EXPECT_FALSE(IsInSubnet("10.0.0.1", wrong)) << wrong;
  }
}

TEST(SubnetTest, ThisHostKnowsThoseOfItsAddresses) {
  EXPECT_EQ(PrefixLengthOf("127.0.0.1"), 8);
  EXPECT_EQ(PrefixLengthOf("192.0.2.1"), 0) << "reserved for documentation";
  EXPECT_EQ(PrefixLengthOf("localhost"), 0);
}

}  // namespace
}  // namespace hp
