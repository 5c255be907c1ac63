#pragma once

#include <cstdint>
#include <string>

namespace hp {

/// How much memory there is to take, and what bounds it.
struct MemoryRoom {
  int64_t bytes = 0;
  std::string limit;   ///< who has that much, before a number: "the host has free", "ulimit -v leaves"
  std::string advice;  ///< what makes it more, to follow "; ": empty where nothing does
};

/// What this process may still allocate on the host: the least of the host's free memory and swap (MemAvailable), its
/// control groups' limits, and its own (RLIMIT_AS, RLIMIT_DATA). A look at one moment: other processes may take it
/// next. Any thread.
/// @param root as in base/cgroup.h.
MemoryRoom HostMemoryRoom(const std::string& root = "");

/// The most that any process can have: a user's half of an x86-64 address space, 2^47 bytes. For plans of nodes on
/// other hosts.
MemoryRoom AddressSpaceRoom();

}  // namespace hp
