// Names and addresses of hosts.
#include "base/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hp {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST(HostTest, AddressesWithPorts) {
  EXPECT_EQ(HostPort("a", 29500), "a:29500");
  EXPECT_EQ(HostPort("10.0.0.1", 1), "10.0.0.1:1");
  EXPECT_EQ(HostPort("::1", 29500), "[::1]:29500");
  EXPECT_EQ(HostPort("[::1]", 29500), "[::1]:29500");
  EXPECT_EQ(BareHost("[fe80::1%eth0]"), "fe80::1%eth0");
  EXPECT_EQ(BareHost("::1"), "::1");
  EXPECT_EQ(BareHost("[]"), "[]");
  EXPECT_THAT(ResolveHost("[::1]"), Contains("::1"));
}

TEST(HostTest, TheAddressOfAnInterfaceThatOthersDial) {
  EXPECT_EQ(*OwnAddressOn("lo", "127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(*OwnAddressOn("lo", "10.0.0.1"), "127.0.0.1");  // behind NAT: one of its family
  EXPECT_EQ(*OwnAddressOn("127.0.0.0/8"), "127.0.0.1");
  EXPECT_THAT(OwnAddressOn("fd00:1::/64").status().message(), HasSubstr("lo 127.0.0.1"));
  if (!OwnAddressOn("::1/128").ok()) GTEST_SKIP() << "no IPv6 on this host";
  EXPECT_EQ(*OwnAddressOn("lo", "::1"), "::1");
  EXPECT_EQ(*OwnAddressOn("lo", "[::1]"), "::1");
  EXPECT_EQ(*OwnAddressOn("lo", "fd00::7"), "::1");
}

}  // namespace
}  // namespace hp
