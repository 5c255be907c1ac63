#include "scheduler/planner/hosts.h"

#include "test/support/small_job.h"

#include <gmock/gmock.h>

namespace hp {
namespace {

using testing::HasSubstr;

StatusOr<Hosts> MakeHosts(const std::string& text) { return HostsOf(Parse<HostsConfig>(text), "/job/hosts.prototxt"); }
std::string HostsFault(const std::string& text) { return MakeHosts(text).status().message(); }

TEST(HostsTest, WhatIsLeftOutFollowsFromTheRest) {
  const auto hosts = MakeHosts(R"(
      host { name: "a" cores: 4 memory_mb: 1000 link_gbit_per_s: 10 latency_us: 20 profile: "a.profile" }
      host { name: "b" device: "cuda:0-1" gflops: 5000 device_memory_mb: 500 })");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  ASSERT_EQ(hosts->places.size(), 3u);
  EXPECT_EQ(hosts->hosts[0].link_bytes_per_second, 1.25e9);
  EXPECT_NEAR(hosts->hosts[0].latency_s, 20e-6, 1e-12);
  EXPECT_EQ(hosts->places[0].device, "cpu");
  EXPECT_EQ(hosts->places[0].speed.flops, 160e9);
  EXPECT_EQ(hosts->places[0].memory_bytes, 1000 << 20);
  EXPECT_EQ(hosts->places[0].profile_path, "/job/a.profile");
  EXPECT_EQ(hosts->places[2].device, "cuda:1");
  EXPECT_EQ(hosts->places[2].host, 1);
  EXPECT_EQ(hosts->places[2].speed.flops, 5e12);
  EXPECT_EQ(hosts->places[2].memory_bytes, 500 << 20);
}

TEST(HostsTest, HostsThatAreExcludedGoWithTheirPlaces) {
  auto hosts = MakeHosts("host { name: 'a' } host { name: 'b' device: 'cuda:0-1' } host { name: 'c' cores: 7 }");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_TRUE(ExcludeHosts({}, &*hosts).ok());
  EXPECT_EQ(hosts->places.size(), 4u);
  EXPECT_TRUE(ExcludeHosts({"b"}, &*hosts).ok());
  ASSERT_EQ(hosts->places.size(), 2u);
  ASSERT_EQ(hosts->hosts.size(), 2u);
  EXPECT_EQ(hosts->places[1].host, 1);
  EXPECT_EQ(hosts->hosts[1].cores, 7);
  EXPECT_THAT(ExcludeHosts({"a", "b"}, &*hosts).message(), HasSubstr("--exclude=b: --hosts has no such host"));
  EXPECT_THAT(ExcludeHosts({"a", "c"}, &*hosts).message(), HasSubstr("leaves no host"));
}

TEST(HostsTest, AddressesInBracketsAreTheSameWithout) {
  auto hosts = MakeHosts("host { name: '[fd00::1]' } host { name: 'fd00::2' } host { name: 'c' }");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_EQ(hosts->hosts[0].name, "fd00::1");
  EXPECT_TRUE(ExcludeHosts({"fd00::1", "[fd00::2]"}, &*hosts).ok());
  ASSERT_EQ(hosts->hosts.size(), 1u);
  EXPECT_EQ(hosts->hosts[0].name, "c");
}

TEST(HostsTest, Faults) {
  EXPECT_THAT(HostsFault(""), HasSubstr("/job/hosts.prototxt has no host"));
  EXPECT_THAT(HostsFault("host { cores: 1 }"), HasSubstr("host 0 has no name"));
  EXPECT_THAT(HostsFault("host { name: 'a' } host { name: 'a' }"), HasSubstr("host \"a\" appears twice"));
  EXPECT_THAT(HostsFault("host { name: 'a' gflops: 0 }"), HasSubstr("host \"a\": gflops is 0; expected more than 0"));
  EXPECT_THAT(HostsFault("host { name: 'a' gflops: nan }"), HasSubstr("gflops is nan"));
  EXPECT_THAT(HostsFault("host { name: 'a' memory_gb_per_s: -1 }"), HasSubstr("memory_gb_per_s is -1"));
  EXPECT_THAT(HostsFault("host { name: 'a' link_gbit_per_s: 0 }"), HasSubstr("link_gbit_per_s is 0"));
  EXPECT_THAT(HostsFault("host { name: 'a' latency_us: -2 }"), HasSubstr("latency_us is -2; expected 0"));
  EXPECT_THAT(HostsFault("host { name: 'a' cores: 0 }"), HasSubstr("cores is 0; expected 1 to 1024"));
  EXPECT_THAT(HostsFault("host { name: 'a' memory_mb: 99999999999 }"),
              HasSubstr("memory_mb is 99999999999; expected 1 to"));
  EXPECT_THAT(HostsFault("host { name: 'a' device: 'gpu0' }"), HasSubstr("a/gpu0"));
  EXPECT_THAT(HostsFault("host { name: 'a' device: 'cuda:0' device: 'cuda:0-1' }"),
              HasSubstr("device \"cuda:0\" twice"));
}

}  // namespace
}  // namespace hp
