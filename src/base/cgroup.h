#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hp {

// Limits of the control groups (Linux cgroups, version 2 and 1) that hold this process: its own group and all groups
// above it that it can see. Each call reads the kernel's files anew. Any thread.
//
// `root` stands in front of every path that is read, so that tests have a /proc and a /sys of their own; empty: the
// host's. Where files are missing or say something unknown there is no limit.

/// A group that may use no more than `cores` processors at a time.
struct CpuQuota {
  uint64_t group = 0;  ///< equal for two processes of one kernel if and only if it is the same group
  int cores = 1;       ///< whole processors: the quota rounded down, at least 1
};
/// The quotas that hold for this process, its own group's first; empty: none. (cpu.max, cpu.cfs_quota_us.)
std::vector<CpuQuota> CpuQuotas(const std::string& root = "");

/// How much more memory a group may take.
struct CgroupRoom {
  int64_t bytes = 0;   ///< limit less usage; what the kernel can drop from its page cache is not counted as used
  int64_t limit = 0;   ///< bytes
  std::string folder;  ///< the group's, without `root`: for messages
};
/// The least of them; nothing: no group has a limit. (memory.max, memory.limit_in_bytes.)
std::optional<CgroupRoom> CgroupMemoryRoom(const std::string& root = "");

}  // namespace hp
