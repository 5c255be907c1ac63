#pragma once

#include <cstdint>
#include <string>

namespace hp {

/// How much memory there is to take, and what bounds it.
struct MemoryRoom {
  int64_t bytes = 0;
  std::string limit;   ///< who has that much, before a number: "the host has free", "ulimit -v leaves it"
  std::string advice;  ///< what makes it more, to follow "; ": empty where nothing does
};

/// Of a process's own limits: what stacks of threads, malloc's arenas and the code that libraries make at run time
/// take. Some libraries crash where they get none.
constexpr int64_t kLibraryReserve = int64_t{256} << 20;

/// What this process may still allocate on the host: the least of the host's free memory and swap (MemAvailable), its
/// control groups' limits, and its own (RLIMIT_AS, RLIMIT_DATA) less kLibraryReserve. A look at one moment: other
/// processes may take it next. Any thread.
/// @param root as in base/cgroup.h.
MemoryRoom HostMemoryRoom(const std::string& root = "");

/// What the host has at all, used or not: its memory and swap, or less where a control group of this process allows
/// less. For plans of nodes that will run here.
/// @param root as in base/cgroup.h.
MemoryRoom HostMemoryTotal(const std::string& root = "");

/// What the machine has, used or not: its memory and swap, whatever a control group or a container shows of it. The
/// most that all processes of the host can have together.
MemoryRoom MachineMemory();

/// The most that any process can have: a user's half of an x86-64 address space, 2^47 bytes. For plans of nodes on
/// other hosts.
MemoryRoom AddressSpaceRoom();

}  // namespace hp
