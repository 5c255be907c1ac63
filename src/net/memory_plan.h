#pragma once

#include <cstddef>
#include <vector>

namespace hp {

/// When a buffer of a solver is in use: from moment `begin` to moment `end`, both included, of one period. Periods
/// follow each other in an order that is not known in advance, and never overlap in time; a buffer of one period holds
/// nothing that another period reads.
struct Lifetime {
  static constexpr int kAlways = -1;  ///< the period of buffers that are in use all the time

  size_t bytes = 0;      ///< 0: it takes no memory
  int period = kAlways;  ///< any number but kAlways names a period
  int begin = 0, end = 0;
};

/// Where each buffer lies in one arena.
struct MemoryPlan {
  std::vector<size_t> offsets;  ///< in bytes, in the order of the lifetimes; each a multiple of 64
  size_t bytes = 0;             ///< size of the arena
};

/// Lays out buffers such that no two share a byte while both are in use: those that are always in use first, then the
/// largest first, each at the lowest offset that is free during its life. Quadratic in the number of buffers.
/// Source: "greedy by size", Pisarchyk and Lee 2020, arXiv:2001.03288.
MemoryPlan PlanMemory(const std::vector<Lifetime>& lifetimes);

}  // namespace hp
