#include "base/cgroup.h"

#include "base/cores.h"
#include "test/unit/base/fake_root.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace hp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int> Cores(const std::vector<CpuQuota>& quotas) {
  std::vector<int> cores;
  for (const CpuQuota& quota : quotas) cores.push_back(quota.cores);
  return cores;
}

TEST(CpuQuotasTest, OfTheOwnGroupAndThoseAboveIt) {
  const FakeRoot root;
  root.MountVersion2("/");
  root.Write("/proc/self/cgroup", "0::/jobs/a/b\n");
  root.Write("/sys/fs/cgroup/jobs/cpu.max", "800000 100000\n");
  root.Write("/sys/fs/cgroup/jobs/a/cpu.max", "max 100000\n");
  root.Write("/sys/fs/cgroup/jobs/a/b/cpu.max", "250000 100000\n");
  root.Write("/sys/fs/cgroup/jobs/other/cpu.max", "100000 100000\n");
  EXPECT_THAT(Cores(CpuQuotas(root.path())), ElementsAre(2, 8));
}

TEST(CpuQuotasTest, AreWholeProcessorsAndAtLeastOne) {
  const FakeRoot root;
  root.MountVersion2("/");
  root.Write("/proc/self/cgroup", "0::/a\n");
  for (const auto& [text, cores] : std::map<std::string, int>{{"20000 100000", 1}, {"399999 100000", 3}}) {
    root.Write("/sys/fs/cgroup/a/cpu.max", text);
    EXPECT_THAT(Cores(CpuQuotas(root.path())), ElementsAre(cores)) << text;
  }
}

TEST(CpuQuotasTest, InAContainerTheMountIsTheOwnGroup) {
  const FakeRoot root;
  root.MountVersion2("/docker/4711");
  root.Write("/proc/self/cgroup", "0::/docker/4711\n");
  root.Write("/sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_THAT(Cores(CpuQuotas(root.path())), ElementsAre(3));
}

TEST(CpuQuotasTest, OfVersion1) {
  const FakeRoot root;
  root.Write("/proc/self/mountinfo",
             "33 32 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
             "34 32 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
  root.Write("/proc/self/cgroup", "3:cpuset:/elsewhere\n2:cpu,cpuacct:/a\n0::/\n");
  root.Write("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "400000\n");
  root.Write("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  root.Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root.Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_THAT(Cores(CpuQuotas(root.path())), ElementsAre(4));
}

TEST(CpuQuotasTest, NoneWhereNothingOrNonsenseIsWritten) {
  const FakeRoot root;
  EXPECT_THAT(CpuQuotas(root.path()), IsEmpty());
  root.MountVersion2("/");
  root.Write("/proc/self/cgroup", "0::/a\nrubbish\n");
  EXPECT_THAT(CpuQuotas(root.path()), IsEmpty());
  for (const char* text : {"", "max", "-1 100000", "100000 0", "ten 100000", "99999999999999999999 1", "1 2 3"}) {
    root.Write("/sys/fs/cgroup/a/cpu.max", text);
    EXPECT_THAT(CpuQuotas(root.path()), IsEmpty()) << text;
  }
}

// What tells two groups apart is not their name: each container calls its own group "/".
TEST(CpuQuotasTest, GroupsAreToldApartAndRecognised) {
  const FakeRoot root;
  root.MountVersion2("/");
  root.Write("/sys/fs/cgroup/cpu.max", "800000 100000");
  root.Write("/sys/fs/cgroup/a/cpu.max", "100000 100000");
  root.Write("/sys/fs/cgroup/b/cpu.max", "100000 100000");
  root.Write("/proc/self/cgroup", "0::/a\n");
  const std::vector<CpuQuota> a = CpuQuotas(root.path()), again = CpuQuotas(root.path());
  root.Write("/proc/self/cgroup", "0::/b\n");
  const std::vector<CpuQuota> b = CpuQuotas(root.path());
  ASSERT_EQ(a.size(), 2u);
  ASSERT_EQ(b.size(), 2u);
  EXPECT_EQ(a[0].group, again[0].group);
  EXPECT_NE(a[0].group, b[0].group);
  EXPECT_EQ(a[1].group, b[1].group) << "the group above both";
}

TEST(CorePoolsTest, QuotasBoundTheCores) {
  const FakeRoot root;
  root.MountVersion2("/");
  root.Write("/proc/self/cgroup", "0::/a\n");
  const int all = AvailableCores(root.path());
  root.Write("/sys/fs/cgroup/a/cpu.max", "100000 100000");
  const std::vector<CorePool> pools = CorePools(root.path());
  ASSERT_EQ(pools.size(), 2u);
  EXPECT_EQ(pools[0].cores, all);
  EXPECT_EQ(pools[1].cores, 1);
  EXPECT_EQ(AvailableCores(root.path()), 1);
}

TEST(CorePoolsTest, ThreadsWithOtherProcessorsHaveAnotherPool) {
  const FakeRoot root;
  cpu_set_t own;
  ASSERT_EQ(sched_getaffinity(0, sizeof(own), &own), 0);
  if (CPU_COUNT(&own) < 2) GTEST_SKIP() << "needs two processors";
  const CorePool whole = CorePools(root.path())[0];
  EXPECT_EQ(CorePools(root.path())[0], whole);
  std::vector<CorePool> single;
  std::thread([&] {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &own)) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
      single.push_back(CorePools(root.path())[0]);
    }
  }).join();
  EXPECT_EQ(single[0].cores, 1);
  EXPECT_EQ(whole.cores, CPU_COUNT(&own));
  EXPECT_NE(single[0].id, single[1].id);
  EXPECT_NE(single[0].id, whole.id);
}

}  // namespace
}  // namespace hp
