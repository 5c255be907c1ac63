#pragma once

#include "base/host_device.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

// A net has many small parameters: launches, not bytes, would decide the time of a kernel for each. So one takes many.
// Only for .cu files.
namespace hp {

/// Items of up to kMost parts that stand behind each other, those of part 0 first.
template <int kMost>
struct Runs {
  int count = 0;
  int64_t ends[kMost] = {};

  void Add(int64_t items) {
    ends[count] = total() + items;
    ++count;
  }
  int64_t total() const { return count == 0 ? 0 : ends[count - 1]; }

  /// Whose item it is. @param within its number among the part's.
  HP_HOST_DEVICE int PartOf(int64_t item, int64_t* within) const {
    int first = 0, last = count - 1;
    while (first < last) {
      const int middle = (first + last) / 2;
      if (item < ends[middle]) {
        last = middle;
      } else {
        first = middle + 1;
      }
    }
    *within = first == 0 ? item : item - ends[first - 1];
    return first;
  }
};

/// The same of elements: packs of four, then one by one what is left of a part or not aligned (Packable).
template <int kMost>
struct PackRuns {
  Runs<kMost> runs;
  int64_t packs[kMost] = {};

  void Add(int64_t n, bool packable) {
    packs[runs.count] = packable ? n / 4 : 0;
    runs.Add(n - 3 * packs[runs.count]);
  }
  int64_t items() const { return runs.total(); }

  /// Calls functor.Run<W>(part, i) for elements [i, i + W) of a part, W being 4 or 1.
  template <typename Functor>
  HP_HOST_DEVICE void RunItem(int64_t item, const Functor& functor) const {
    int64_t i;
    const int part = runs.PartOf(item, &i);
    if (i < packs[part]) {
      functor.template Run<4>(part, 4 * i);
    } else {
      functor.template Run<1>(part, 3 * packs[part] + i);
    }
  }
};

/// Calls visit(parts) for at most kMost of them at a time, in order.
template <int kMost, typename Part, typename Visit>
void ForParts(std::span<const Part> parts, const Visit& visit) {
  for (size_t begin = 0; begin < parts.size(); begin += kMost) {
    visit(parts.subspan(begin, std::min<size_t>(kMost, parts.size() - begin)));
  }
}

/// A kernel's arguments have at most so many bytes.
constexpr size_t kMostArgumentBytes = 4096;

}  // namespace hp
