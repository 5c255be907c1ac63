// Greedy by size: buffers are placed one after the other, the largest first, each into the lowest gap between the
// placed buffers whose lives meet its own. `placed` is kept sorted by offset, so that one pass finds the gap. What is
// always in use goes first, since it shares memory with nothing.
#include "net/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace hp {
namespace {

bool Meet(const Lifetime& a, const Lifetime& b) {
  if (a.period == Lifetime::kAlways || b.period == Lifetime::kAlways) return true;
  return a.period == b.period && a.begin <= b.end && b.begin <= a.end;
}

}  // namespace

MemoryPlan PlanMemory(const std::vector<Lifetime>& lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const bool a_always = lifetimes[a].period == Lifetime::kAlways, b_always = lifetimes[b].period == Lifetime::kAlways;
    if (a_always != b_always) return a_always;
    return lifetimes[a].bytes > lifetimes[b].bytes;
  });
  const auto rounded = [&](size_t i) { return (lifetimes[i].bytes + 63) / 64 * 64; };
  MemoryPlan plan;
  plan.offsets.resize(lifetimes.size());
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    size_t offset = 0;
    for (size_t other : placed) {
      if (!Meet(lifetimes[i], lifetimes[other])) continue;
      if (offset + rounded(i) <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + rounded(other));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + rounded(i));
    const auto before = [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i, before), i);
  }
  return plan;
}

}  // namespace hp
