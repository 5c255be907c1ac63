#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

/// The most threads that a node computes with, and that read for it: more than a host has processors.
constexpr int kMaxThreads = 1024;

/// Processors that this process shares with all others that have the same pool: those of its affinity mask, or those
/// that a control group's quota leaves it.
struct CorePool {
  uint64_t id = 0;  ///< among processes of one kernel equal if and only if the pool is the same
  int cores = 1;    ///< at least 1

  bool operator==(const CorePool&) const = default;
};

/// The pools of the calling thread: its CPU set (sched_getaffinity), then the CPU quotas of its control groups. Never
/// empty. Processes with different CPU sets, or in different groups, share nothing there. Any thread.
/// @param root as in base/cgroup.h; the CPU set is always the thread's own.
std::vector<CorePool> CorePools(const std::string& root = "");

/// The number of processors that the calling thread may use: the least of its pools; at least 1.
int AvailableCores(const std::string& root = "");

/// The number of threads that the environment asks for by OMP_NUM_THREADS, as the programs on OpenMP and OpenBLAS take
/// it; 0: it asks for none.
int ThreadsOfEnvironment();
/// That number, or AvailableCores().
int DefaultThreads();

}  // namespace hp
