#include "base/memory_room.h"

#include "base/cgroup.h"
#include "test/unit/base/fake_root.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace hp {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMega = 1 << 20;

TEST(CgroupMemoryRoomTest, IsLimitLessWhatCannotBeDropped) {
  const FakeRoot root;
  root.MountVersion2("/");
  root.Write("/proc/self/cgroup", "0::/a\n");
  root.Write("/sys/fs/cgroup/a/memory.max", "104857600\n");
  root.Write("/sys/fs/cgroup/a/memory.current", "62914560\n");
  root.Write("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 10485760\nactive_file 5\n");
  const std::optional<CgroupRoom> room = CgroupMemoryRoom(root.path());
  ASSERT_TRUE(room);
  EXPECT_EQ(room->bytes, 50 * kMega);
  EXPECT_EQ(room->limit, 100 * kMega);
  EXPECT_EQ(room->folder, "/sys/fs/cgroup/a");
}

TEST(CgroupMemoryRoomTest, IsTheLeastOfAllGroups) {
  const FakeRoot root;
  root.MountVersion2("/");
  root.Write("/proc/self/cgroup", "0::/a/b\n");
  root.Write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  root.Write("/sys/fs/cgroup/a/b/memory.current", "1\n");
  EXPECT_FALSE(CgroupMemoryRoom(root.path()));
  root.Write("/sys/fs/cgroup/a/memory.max", "1000\n");
  root.Write("/sys/fs/cgroup/a/memory.current", "1200\n");
  ASSERT_TRUE(CgroupMemoryRoom(root.path()));
  EXPECT_EQ(CgroupMemoryRoom(root.path())->bytes, 0);
}

TEST(CgroupMemoryRoomTest, OfVersion1) {
  const FakeRoot root;
  root.Write("/proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  root.Write("/proc/self/cgroup", "4:memory:/a\n0::/\n");
  root.Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "100\n");
  root.Write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5000\n");
  root.Write("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "2000\n");
  root.Write("/sys/fs/cgroup/memory/a/memory.stat", "inactive_file 7\ntotal_inactive_file 500\n");
  ASSERT_TRUE(CgroupMemoryRoom(root.path()));
  EXPECT_EQ(CgroupMemoryRoom(root.path())->bytes, 3500);
}

TEST(HostMemoryRoomTest, IsTheLeastOfHostAndGroup) {
  const FakeRoot root;
  EXPECT_LE(HostMemoryRoom(root.path()).bytes, AddressSpaceRoom().bytes);
  root.Write("/proc/meminfo", "MemTotal:   9000000 kB\nMemAvailable:   500 kB\nSwapFree:       20 kB\n");
  EXPECT_EQ(HostMemoryRoom(root.path()).bytes, 520 * 1024);
  EXPECT_EQ(HostMemoryRoom(root.path()).limit, "the host has free");
  root.MountVersion2("/");
  root.Write("/proc/self/cgroup", "0::/a\n");
  root.Write("/sys/fs/cgroup/a/memory.max", "4096\n");
  root.Write("/sys/fs/cgroup/a/memory.current", "0\n");
  EXPECT_EQ(HostMemoryRoom(root.path()).bytes, 4096);
  EXPECT_THAT(HostMemoryRoom(root.path()).limit, HasSubstr("/sys/fs/cgroup/a"));
}

TEST(HostMemoryTotalTest, IsWhatThereIsUsedOrNot) {
  const FakeRoot root;
  root.Write("/proc/meminfo", "MemTotal:   9000 kB\nMemAvailable:   500 kB\nSwapTotal:  1000 kB\nSwapFree: 20 kB\n");
  EXPECT_EQ(HostMemoryTotal(root.path()).bytes, 10000 * 1024);
  root.MountVersion2("/");
  root.Write("/proc/self/cgroup", "0::/a\n");
  root.Write("/sys/fs/cgroup/a/memory.max", "8192\n");
  root.Write("/sys/fs/cgroup/a/memory.current", "4096\n");
  EXPECT_EQ(HostMemoryTotal(root.path()).bytes, 8192);
}

TEST(HostMemoryRoomTest, IsTheProcesssOwnLimit) {
  constexpr int64_t kLimit = int64_t{1} << 45;  // more than a sanitizer's shadow
  const FakeRoot root;
  root.Write("/proc/self/status", "VmPeak:\t 999 kB\nVmSize:\t  1024 kB\nVmData:\t 1024 kB\n");
  for (const auto& [resource, name] : {std::pair(RLIMIT_AS, "ulimit -v"), std::pair(RLIMIT_DATA, "ulimit -d")}) {
    rlimit before = {};
    ASSERT_EQ(getrlimit(resource, &before), 0);
    if (before.rlim_max < static_cast<rlim_t>(kLimit)) GTEST_SKIP() << "this process has a limit already: " << name;
    const rlimit limit = {static_cast<rlim_t>(kLimit), before.rlim_max};
    ASSERT_EQ(setrlimit(resource, &limit), 0);
    const MemoryRoom room = HostMemoryRoom(root.path());
    ASSERT_EQ(setrlimit(resource, &before), 0);
    EXPECT_EQ(room.bytes, kLimit - kMega - kLibraryReserve);
    EXPECT_THAT(room.limit, HasSubstr(name));
    EXPECT_THAT(room.advice, HasSubstr(name));
  }
}

TEST(HostMemoryRoomTest, OfThisHost) {
  const MemoryRoom room = HostMemoryRoom();
  EXPECT_GT(room.bytes, kMega);
  EXPECT_LT(room.bytes, AddressSpaceRoom().bytes) << "this host says how much is free";
}

}  // namespace
}  // namespace hp
