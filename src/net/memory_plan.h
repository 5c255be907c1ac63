#pragma once

#include <cstddef>
#include <vector>

namespace hp {

/// When a run of bytes of a solver is in use: at the moments `begin` to `end`, both included, of period `period`.
/// Periods come in any order, but one after the other, and nothing that belongs to one is read in another.
struct Lifetime {
  static constexpr int kAlways = -1;  ///< period of what is in use all the time

  size_t bytes = 0;
  int period = kAlways;
  int begin = 0, end = 0;
};

struct MemoryPlan {
  std::vector<size_t> offsets;  ///< by lifetime; each a multiple of 64
  size_t bytes = 0;             ///< of the whole
};

/// Lays out memory such that no two lifetimes share a byte while both last: large ones first, each at the lowest offset
/// that is free during its life (greedy by size, Pisarchyk and Lee 2020, arXiv 2001.03288).
MemoryPlan PlanMemory(const std::vector<Lifetime>& lifetimes);

}  // namespace hp
